/** Everything about a session: its status, what its CLI said of itself, what it has to work with, what fills its context. */

import type { ComponentChildren } from "preact";
import { get, part } from "../api/http";
import type { Batch, ConversationPage, Status } from "../api/types";
import { useLoaded } from "../ui/load";
import { amount, dateTime, money } from "../ui/time";
import { modeName } from "./modes";
import { LoadState, PanelDialog, StartFirst } from "./panel-dialog";

type Json = Record<string, unknown>;

export function SessionPanel(props: { id: string; status: Status; onClose: () => void }) {
  const { id, status } = props;
  return (
    <PanelDialog title="Everything about the session" onClose={props.onClose} class="wide">
      <Facts facts={factsOf(status)} />
      <InitSection id={id} />
      {!status.foreign && <CliSection id={id} status={status} />}
      <Fold title="Whole status">
        <pre class="raw">{JSON.stringify(status, null, 2)}</pre>
      </Fold>
    </PanelDialog>
  );
}

type FactList = readonly [string, ComponentChildren][];

function Facts(props: { facts: FactList }) {
  return (
    <dl class="facts">
      {props.facts
        .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function factsOf(status: Status): FactList {
  const { tokens, context } = status;
  return [
    ["Session", <code>{status.session_id}</code>],
    ["Claude's id", status.claude_session_id !== status.session_id && status.claude_session_id && <code>{status.claude_session_id}</code>],
    ["Directory", <code>{status.cwd}</code>],
    ["Simulated in", status.scratch && <code>{status.scratch}</code>],
    ["State", [status.state.replace("_", " "), status.reason].filter(Boolean).join(": ")],
    ["CLI", cliOf(status)],
    ["Machine", status.machine ?? "the server's own"],
    ["Model", status.model],
    ["Mode", modeName(status.mode)],
    ["Label", status.label],
    ["Started", dateTime(status.started_at)],
    ["Last change", dateTime(status.updated_at)],
    ["Turns", status.turns],
    ["Cost", status.cost_usd !== undefined && money(status.cost_usd) + capOf(status)],
    [
      "Tokens",
      tokens &&
        `${amount(tokens.input ?? 0)} in, ${amount(tokens.output ?? 0)} out, ${amount(tokens.cache_read ?? 0)} read from cache, ${amount(tokens.cache_write ?? 0)} written to it`,
    ],
    ["Context", context && `${amount(context.tokens)} tokens${context.window ? ` of ${amount(context.window)}` : ""}`],
    ["Forked from", status.parent && <a href={`#/session/${encodeURIComponent(status.parent)}`}>{status.parent}</a>],
    ["Its plan goes on in", status.successor && <a href={`#/session/${encodeURIComponent(status.successor)}`}>{status.successor}</a>],
  ];
}

function cliOf(status: Status): string {
  if (!status.live) return status.source === "transcript" ? "None of the server's" : "Not running";
  const version = status.cli_version ? ` ${status.cli_version}` : "";
  return `Running${version}, process ${status.pid ?? "unknown"}, by ${status.via ?? "relay"}`;
}

function capOf(status: Status): string {
  const cap = status.caps?.session_usd;
  return cap ? ` of ${money(cap)}` : "";
}

// What the CLI said when the last turn began

function InitSection(props: { id: string }) {
  const loaded = useLoaded(() => readInit(props.id), []);
  const init = loaded.value;
  if (!init) return loaded.isLoading || loaded.error ? <LoadState of={loaded} /> : null;
  return (
    <>
      <Names title="Tools" of={init.tools} />
      <Names title="Agents" of={init.agents} />
      <Names title="Skills" of={init.skills} />
      <Names title="Plugins" of={init.plugins} />
      <Names title="MCP servers" of={init.mcp_servers} />
      <Names title="Slash commands" of={init.slash_commands} />
    </>
  );
}

/** The `init` line of the last turn: the journal has it shortly after the prompt. */
async function readInit(id: string): Promise<Json | null> {
  const page = await get<ConversationPage>(`/api/sessions/${part(id)}/conversation`, { limit: 200 });
  const prompts = page.items.filter((item) => item.kind === "prompt" && !item.agent && item.seq > 0 && (item.state ?? "taken") === "taken");
  for (const prompt of prompts.reverse().slice(0, 3)) {
    const batch = await get<Batch>("/api/events", { after: prompt.seq - 1, session_id: id, limit: 100 });
    const found = batch.events.map((event) => event.body as Json).find((body) => body.type === "system" && body.subtype === "init");
    if (found) return found;
  }
  return null;
}

function Names(props: { title: string; of: unknown }) {
  const names = (Array.isArray(props.of) ? props.of : []).map((each: unknown) => nameOf(each));
  if (!names.length) return null;
  return (
    <Fold title={props.title} count={names.length}>
      <ul class="names">
        {names.map((each) => (
          <li key={each} class="mono">
            {each}
          </li>
        ))}
      </ul>
    </Fold>
  );
}

function nameOf(value: unknown): string {
  if (typeof value === "string") return value;
  const { name, status, description } = value as { name?: string; status?: string; description?: string };
  return [name, status ?? description].filter(Boolean).join(": ") || JSON.stringify(value);
}

// What is asked of the CLI

function CliSection(props: { id: string; status: Status }) {
  const path = `/api/sessions/${part(props.id)}`;
  const greeting = useLoaded((abort) => get<Json>(`${path}/greeting`, {}, abort), [], { isAtOnce: props.status.live });
  const context = useLoaded((abort) => get<Json>(`${path}/context`, {}, abort), [], { isAtOnce: false });
  const said = greeting.value;
  return (
    <>
      <StartFirst of={greeting} status={props.status} words="Start its CLI, and ask it about itself" />
      <LoadState of={greeting} words="Asking its CLI…" />
      {said && (
        <Fold title="Its CLI" isOpen>
          <Facts facts={greetingFacts(said)} />
        </Fold>
      )}
      {said && !context.value && !context.isLoading && (
        <button class="button" onClick={context.again}>
          What fills the context
        </button>
      )}
      <LoadState of={context} words="Counting…" />
      {context.value && <ContextSection context={context.value} />}
    </>
  );
}

function greetingFacts(said: Json): FactList {
  const account = (said.account ?? {}) as Json;
  const styles = said.available_output_styles as string[] | undefined;
  return [
    ["Version", said.claude_code_version as string],
    ...Object.entries(account).map(([name, value]): [string, string] => [`Account, ${name}`, String(value)]),
    ["Output style", [said.output_style, styles?.length && `(there are: ${styles.join(", ")})`].filter(Boolean).join(" ")],
    ["Fast mode", [said.fast_mode_state, said.fast_mode_disabled_reason].filter(Boolean).join(", ")],
    ["Agents", ((said.agents ?? []) as Json[]).map((each) => nameOf(each)).join("; ")],
  ];
}

function ContextSection(props: { context: Json }) {
  const { categories, totalTokens, maxTokens } = props.context as {
    categories?: { name: string; tokens: number; kind?: string }[];
    totalTokens?: number;
    maxTokens?: number;
  };
  const most = Math.max(1, ...(categories ?? []).filter((each) => each.kind !== "free").map((each) => each.tokens));
  return (
    <Fold title={`Context: ${amount(totalTokens ?? 0)} of ${amount(maxTokens ?? 0)} tokens`} isOpen>
      <ul class="bars">
        {(categories ?? []).map((each) => (
          <li key={each.name}>
            <span class="grow">{each.name}</span>
            <span class="faint">{amount(each.tokens)}</span>
            {each.kind !== "free" && <meter min={0} max={most} value={each.tokens} aria-label={each.name} />}
          </li>
        ))}
      </ul>
    </Fold>
  );
}

function Fold(props: { title: string; count?: number; isOpen?: boolean; children: ComponentChildren }) {
  return (
    <details class="panel-fold" open={props.isOpen}>
      <summary>
        {props.title} {props.count !== undefined && <span class="group-count">{props.count}</span>}
      </summary>
      {props.children}
    </details>
  );
}
