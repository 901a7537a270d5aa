/** Which questions of the past a changed policy would have decided otherwise. */

import { useState } from "preact/hooks";
import type { DryRun, DryRunLine } from "../api/types";
import { link } from "../routes";
import { Verdict } from "./policy-rules";

const SHOWN = 25;

export function DryRunReport(props: { result: DryRun; isOld: boolean }) {
  const [most, setMost] = useState(SHOWN);
  const differ = [...(props.result.differ ?? [])].reverse();
  const count = differ.length + (props.result.older ?? 0);
  const shown = differ.slice(0, most);
  return (
    <div class="look-dry-run" role="status" aria-label="What the text would have decided">
      <h3>{headline(props.result.examined, count)}</h3>
      {props.isOld && <p class="small quiet">The text has changed since; try it again.</p>}
      {count > 0 && <Changes lines={differ} />}
      <ul>
        {shown.map((line) => (
          <Line key={line.question_id} line={line} />
        ))}
      </ul>
      {differ.length > shown.length && (
        <button class="button plain small" onClick={() => setMost(most + 100)}>
          Show {Math.min(100, differ.length - shown.length)} more
        </button>
      )}
      {!!props.result.older && <p class="small faint">{props.result.older.toLocaleString()} older ones differ, too.</p>}
    </div>
  );
}

function headline(examined: number, count: number): string {
  const all = `${examined.toLocaleString()} past ${examined === 1 ? "question" : "questions"}`;
  if (!examined) return "There are no past questions to try it on";
  if (!count) return `All of ${all} would be decided as they were`;
  return `${count.toLocaleString()} of ${all} would be decided otherwise`;
}

/** How many go from which verdict to which. */
function Changes(props: { lines: readonly DryRunLine[] }) {
  const counts = new Map<string, number>();
  for (const { before, after } of props.lines) {
    const change = `${before} ${after}`;
    counts.set(change, (counts.get(change) ?? 0) + 1);
  }
  return (
    <p class="row wrap small">
      {[...counts].map(([change, count]) => {
        const [before = "", after = ""] = change.split(" ");
        return (
          <span key={change} class="look-change">
            {count.toLocaleString()} <Verdict is={before} /> <Arrow /> <Verdict is={after} />
          </span>
        );
      })}
    </p>
  );
}

function Line(props: { line: DryRunLine }) {
  const { line } = props;
  return (
    <li>
      <div class="look-dry-run-title">
        <span class="mono quiet">{line.tool_name}</span>
        <a class="cut" href={link({ view: "session", id: line.session_id })} title={line.title}>
          {line.title}
        </a>
      </div>
      <div class="row wrap small quiet">
        <Verdict is={line.before} />
        <span class="look-anywhere">{line.before_rule ?? "no rule"}</span> <Arrow /> <Verdict is={line.after} />
        <span class="look-anywhere">{line.after_rule ?? "no rule"}</span>
      </div>
    </li>
  );
}

const Arrow = () => (
  <>
    <span aria-hidden="true">→</span>
    <span class="unseen">then</span>
  </>
);
