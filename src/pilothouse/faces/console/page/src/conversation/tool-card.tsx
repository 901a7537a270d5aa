/** A call of a tool: one line that says what it does and how it stands, and the view that fits it below. */

import type { ReadonlySignal } from "@preact/signals";
import type { ToolItem } from "../api/types";
import { DiffCounts } from "../ui/diff";
import { amount, duration, now } from "../ui/time";
import { AgentRun, AgentFacts, isAgent, isTaskOver } from "./agent-run";
import type { CardProps } from "./item-card";
import { outlineOf } from "./outline";
import { Output } from "./output";
import { placesOf } from "./session-status";
import { ToolBody } from "./tool-body";
import { isCode, toolDetail, toolName } from "./tool-summary";

type State = NonNullable<ToolItem["state"]>;

const MARKS: Record<State, [sign: string, words: string]> = {
  writing: ["", "being written"],
  running: ["", "running"],
  asking: ["?", "waiting for an answer"],
  done: ["✓", "done"],
  failed: ["✕", "failed"],
  denied: ["⊘", "denied"],
  interrupted: ["■", "interrupted"],
  retracted: ["↶", "taken back"],
};

export function ToolCard(props: CardProps) {
  const item = props.item.value as ToolItem;
  const { sessionId } = props.conversation;
  const outline = outlineOf(props.conversation);
  const children = outline.childrenOf(item.id);
  const opening = outline.opening(item.id);
  const isOpen = opening.value ?? isOpenAtFirst(item, children);
  const isSubagent = isAgent(item, children.value.length);
  const state = item.state ?? "running";
  return (
    <div class="tool card" data-state={state} data-view={item.view?.view}>
      <button type="button" class="tool-head fold" aria-expanded={isOpen} onClick={() => (opening.value = !isOpen)}>
        <StateMark state={state} />
        <span class="tool-name">{toolName(item.tool)}</span>
        <Detail item={item} sessionId={sessionId} />
        <Facts item={item} state={state} hasChildren={children.value.length > 0} />
      </button>
      {isOpen && (
        <div class="tool-body">
          <Trouble item={item} state={state} />
          {isSubagent ? <AgentRun {...props} /> : <ToolBody item={item} sessionId={sessionId} />}
        </div>
      )}
    </div>
  );
}

function Detail(props: { item: ToolItem; sessionId: string }) {
  const { item } = props;
  const about = item.view?.view === "command" ? item.view.description : undefined;
  return (
    <span class={isCode(item) ? "tool-detail mono" : "tool-detail"} title={about}>
      {toolDetail(item, placesOf(props.sessionId).value)}
    </span>
  );
}

const SHOWN_AT_ONCE = new Set(["command", "diff", "todo", "plan", "choice", "structured"]);

/** What changes something or went wrong is shown at once; what was only read is not. */
function isOpenAtFirst(item: ToolItem, children: ReadonlySignal<readonly string[]>): boolean {
  if (isAgent(item, children.value.length)) return !isTaskOver(item);
  if (item.state === "writing") return false;
  if (item.state === "failed" || item.state === "denied") return true;
  return SHOWN_AT_ONCE.has(item.view?.view ?? "");
}

function StateMark(props: { state: State }) {
  const [sign, words] = MARKS[props.state] ?? ["", props.state];
  return (
    <span class="state-mark" data-state={props.state} role="img" aria-label={words}>
      {sign}
    </span>
  );
}

const NOT_DONE = new Set<State>(["denied", "interrupted", "retracted"]);

/** What stands at the end of the head: how long, how it ended, how much. */
function Facts(props: { item: ToolItem; state: State; hasChildren: boolean }) {
  const { item, state } = props;
  const { view } = item;
  return (
    <span class="tool-facts">
      {isAgent(item, props.hasChildren ? 1 : 0) && <AgentFacts item={item} />}
      {state === "writing" && <span>{amount(item.written ?? 0)} characters written</span>}
      {state === "asking" && <span class="badge ask">Waiting for you</span>}
      {NOT_DONE.has(state) && <span class="badge">{notDone(item, state)}</span>}
      {view?.view === "diff" && <DiffCounts added={view.added ?? 0} removed={view.removed ?? 0} />}
      {view?.view === "search" && view.hits != null && <span>{view.hits === 1 ? "1 hit" : `${view.hits} hits`}</span>}
      {view?.view === "file" && fileFacts(view.text ?? "", view.total_lines)}
      {view?.view === "command" && !!view.exit_code && <span class="badge bad">Exit code {view.exit_code}</span>}
      {view?.view === "command" && view.background && <span class="badge">In the background</span>}
      {state === "running" && item.at ? <Elapsed since={item.at} /> : <Took item={item} />}
    </span>
  );
}

/** A plan that was sent back, or that a new session carries out, is no denial: the line below it says which. */
function notDone(item: ToolItem, state: State): string {
  return state === "denied" && item.view?.view === "plan" ? "not carried out here" : MARKS[state][1];
}

function fileFacts(text: string, total: number | null | undefined) {
  if (!text) return null;
  const lines = text.replace(/\n$/, "").split("\n").length;
  const all = total && total > lines ? ` of ${total.toLocaleString()}` : "";
  return <span>{lines === 1 && !all ? "1 line" : `${lines.toLocaleString()}${all} lines`}</span>;
}

/** Drawn anew every second, alone. */
export function Elapsed(props: { since: number }) {
  const seconds = Math.max(0, Math.floor((now.value - props.since) / 1000));
  return <span class="elapsed">{seconds < 60 ? `${seconds} s` : duration(seconds * 1000)}</span>;
}

/** Calls that take no time worth a word say none. */
const WORTH_MS = 1000;

function Took(props: { item: ToolItem }) {
  const { at, ended_at: end, task } = props.item;
  const took = at && end && !task ? end - at : 0;
  return took >= WORTH_MS ? <span>{duration(took)}</span> : null;
}

/** Why it was not done. What the model is told of a failure is the reason that there is. */
function Trouble(props: { item: ToolItem; state: State }) {
  const { item, state } = props;
  if (state === "denied" && item.view?.view === "plan") return null;
  if (state === "denied") return <p class="tool-trouble">Denied{item.reason ? `: ${item.reason}` : "."}</p>;
  if (state === "interrupted" && !item.result) return <p class="tool-trouble quiet">Stopped without a result.</p>;
  const saysItself = item.view?.view === "command" && (item.view.output || item.view.errors);
  if (state !== "failed" || !item.result || saysItself) return null;
  return <Output text={item.result} isBad label="Why it failed" fromStart />;
}
