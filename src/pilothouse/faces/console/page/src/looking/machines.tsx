/** The machines that run sessions: the server's own, and those that were let in. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get, part, post, remove } from "../api/http";
import type { DialInWaiting, Health, Runner } from "../api/types";
import { link } from "../routes";
import { rowOf, sessions } from "../state/sessions";
import { clockTime, dateTime, now, span } from "../ui/time";
import { toast, toastError } from "../ui/toasts";
import { Confirm } from "./confirm";
import { readHealth } from "./health";
import { useEvery, useLoaded } from "../ui/load";
import { MachineAdd } from "./machine-add";
import { Page, Panel, Pending } from "./page";

const REFRESH_MS = 5000;
/** So many sessions of a machine are shown without being asked for. */
const SHOWN = 8;

interface MachinesData {
  health: Health;
  runners: Runner[];
  dialIns: DialInWaiting[];
}

async function readMachines(abort: AbortSignal): Promise<MachinesData> {
  const [health, runners, dialIns] = await Promise.all([
    readHealth(abort),
    get<Runner[]>("/api/runners", {}, abort),
    get<DialInWaiting[]>("/api/dial-ins", {}, abort),
  ]);
  return { health, runners, dialIns };
}

export function Machines() {
  const machines = useLoaded(readMachines, []);
  useEvery(REFRESH_MS, machines.again);
  const [isAdding, setAdding] = useState(false);
  const tools = (
    <button class="button main" onClick={() => setAdding(true)}>
      Add a machine
    </button>
  );
  return (
    <Page title="Machines" tools={tools}>
      <Pending of={machines} />
      {machines.value && <Own health={machines.value.health} />}
      {machines.value?.runners.map((runner) => (
        <RunnerPanel key={runner.name} runner={runner} again={machines.again} />
      ))}
      {machines.value && !machines.value.runners.length && (
        <p class="quiet">
          No other machine is let in. A machine that you add runs sessions where its code is; the server
          starts them there.
        </p>
      )}
      {machines.value && <DialIns waiting={machines.value.dialIns} />}
      {isAdding && (
        <MachineAdd
          onClose={() => {
            setAdding(false);
            machines.again();
          }}
        />
      )}
    </Page>
  );
}

function Own(props: { health: Health }) {
  const { health } = props;
  const state = <span class={health.ok ? "badge good" : "badge bad"}>{health.ok ? "in order" : "in trouble"}</span>;
  const own = sessions.value.filter((row) => row.live && !row.machine).map((row) => row.session_id);
  return (
    <Panel title="This server" tools={state}>
      {health.problem && <p class="look-trouble">{health.problem}</p>}
      {health.lack && <p class="look-hint">{health.lack}</p>}
      <dl class="look-facts">
        <Fact name="Address">{location.host}</Fact>
        <Fact name="Pilothouse">{health.version}</Fact>
        <Fact name="Running since">{dateTime(health.started_at)}</Fact>
        <Fact name="Running CLIs">
          {health.live}
          {health.simulated && " (simulated)"}
        </Fact>
      </dl>
      <SessionLinks ids={own} />
    </Panel>
  );
}

const STATES: Record<Runner["state"], [tone: string, words: string]> = {
  connected: ["good", "connected"],
  draining: ["ask", "draining: takes no new sessions"],
  away: ["", "away"],
  lost: ["bad", "lost"],
};

function RunnerPanel(props: { runner: Runner; again: () => void }) {
  const { runner } = props;
  const [tone, words] = STATES[runner.state] ?? ["", runner.state];
  return (
    <Panel title={runner.name} tools={<span class={`badge ${tone}`}>{words}</span>}>
      <dl class="look-facts">
        <Fact name="Since">
          {runner.since ? `${dateTime(runner.since)} (${span(now.value - runner.since)})` : "it never came"}
        </Fact>
        <Fact name="Host">{runner.host || "not known"}</Fact>
        <Fact name="Pilothouse">{runner.version || "not known"}</Fact>
        <Fact name="CLI">{runner.cli_version || "not known"}</Fact>
      </dl>
      <SessionLinks ids={runner.sessions ?? []} />
      <RunnerTools {...props} />
    </Panel>
  );
}

function RunnerTools(props: { runner: Runner; again: () => void }) {
  const { runner, again } = props;
  const [isBusy, setBusy] = useState(false);
  const [isRevoking, setRevoking] = useState(false);
  const path = `/api/runners/${part(runner.name)}`;
  // Of a machine that is not there nobody can see whether it drains: both ways are open.
  const isAway = runner.state === "away" || runner.state === "lost";
  const drain = (draining: boolean) => {
    setBusy(true);
    post<Runner>(`${path}/drain`, { draining })
      .then(() => toast(draining ? `${runner.name} takes no new sessions.` : `${runner.name} takes sessions again.`))
      .then(again)
      .catch(toastError)
      .finally(() => setBusy(false));
  };
  const revoke = async () => {
    await remove(path);
    toast(`${runner.name} is let in no more.`);
    again();
  };
  const title = `Let ${runner.name} in no more?`;
  const there = runner.sessions?.length ?? 0;
  const many = `The CLIs of ${there} ${there === 1 ? "session" : "sessions"} there end in order.`;
  const ends = there ? many : "No session runs there.";
  return (
    <div class="row wrap">
      {(isAway || runner.state === "connected") && (
        <button class="button" disabled={isBusy} onClick={() => drain(true)}>
          Take no new sessions
        </button>
      )}
      {(isAway || runner.state === "draining") && (
        <button class="button" disabled={isBusy} onClick={() => drain(false)}>
          Take sessions again
        </button>
      )}
      <button class="button danger" onClick={() => setRevoking(true)}>
        Revoke
      </button>
      {isRevoking && (
        <Confirm title={title} action="Revoke" act={revoke} onClose={() => setRevoking(false)}>
          Its token is worth nothing then. {ends} The name can be added again, with a new token.
        </Confirm>
      )}
    </div>
  );
}

function DialIns(props: { waiting: readonly DialInWaiting[] }) {
  if (!props.waiting.length) return null;
  return (
    <Panel title="CLIs that are expected">
      <p class="small quiet">Somebody is to start these by hand; they become sessions once they dial.</p>
      <table class="look-table">
        <thead>
          <tr>
            <th scope="col">Session</th>
            <th scope="col">Directory</th>
            <th scope="col">Label</th>
            <th scope="col">Expires</th>
          </tr>
        </thead>
        <tbody>
          {props.waiting.map((each) => (
            <tr key={each.session_id}>
              <td class="mono">{each.session_id.slice(0, 8)}</td>
              <td class="mono look-anywhere">{each.cwd}</td>
              <td>{each.label}</td>
              <td>
                {clockTime(each.expires_at)}, in {span(each.expires_at - now.value)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function Fact(props: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

function SessionLinks(props: { ids: readonly string[] }) {
  const [isOpen, open] = useState(false);
  const shown = isOpen ? props.ids : props.ids.slice(0, SHOWN);
  if (!props.ids.length) return <p class="small faint">No session has its CLI here.</p>;
  return (
    <ul class="look-session-links" aria-label="Sessions here">
      {shown.map((id) => (
        <li key={id}>
          <a class="cut" href={link({ view: "session", id })}>
            {rowOf(id)?.title || id}
          </a>
        </li>
      ))}
      {props.ids.length > shown.length && (
        <li>
          <button class="button plain small" onClick={() => open(true)}>
            Show {props.ids.length - shown.length} more
          </button>
        </li>
      )}
    </ul>
  );
}
