/** What a file changes by, line by line: signs and colours, numbers where they are known, folded where it is long. */

import { useMemo, useState } from "preact/hooks";
import type { DiffView, Hunk } from "../api/types";
import { MoreLines } from "./code";
import { CopyButton } from "./copy";
import { parseDiff } from "./diff-text";

const SHOWN = 40;
const SPARE = 8;

/** One line of a diff as it is drawn. */
interface Line {
  sign: string;
  text: string;
  before?: number | undefined;
  after?: number | undefined;
}

/** A diff of one file, with its name and how much changes. */
export function Diff(props: { view: DiffView; isBare?: boolean; shown?: number | undefined }) {
  const { view } = props;
  const rows = useMemo(() => rowsOf(view.hunks ?? [], view.is_numbered ?? false), [view.hunks, view.is_numbered]);
  return (
    <figure class="diff">
      {!props.isBare && (
        <figcaption class="row">
          <span class="mono cut grow" title={view.path}>
            {view.path}
          </span>
          {view.is_new && <span class="badge good">New file</span>}
          <DiffCounts added={view.added ?? 0} removed={view.removed ?? 0} />
        </figcaption>
      )}
      <Rows rows={rows} numbers={!view.is_numbered ? 0 : view.is_new ? 1 : 2} shown={props.shown ?? SHOWN} />
      <CopyButton text={() => textOf(view)} class="copy floating" />
      {!!view.cut && (
        <p class="left-out">
          {leftOut(view.cut, view.is_new ?? false)}
        </p>
      )}
    </figure>
  );
}

/** Of a new file characters are counted, else lines: those that are not there, and those that end too soon. */
function leftOut(count: number, isNew: boolean): string {
  if (isNew) return `${count.toLocaleString()} more characters are not shown.`;
  return count === 1 ? "1 line is not shown whole." : `${count.toLocaleString()} lines are not shown whole.`;
}

/** A unified diff that came as text, perhaps of several files and with words before it. */
export function DiffText(props: { text: string; isNumbered?: boolean; shown?: number }) {
  const { words, views } = useMemo(() => parseDiff(props.text), [props.text]);
  if (!views.length) return <pre class="diff-words">{props.text}</pre>;
  return (
    <>
      {words && <pre class="diff-words">{words}</pre>}
      {views.map((view, at) => (
        <Diff key={at} view={{ ...view, is_numbered: props.isNumbered ?? false }} shown={props.shown} />
      ))}
    </>
  );
}

export function DiffCounts(props: { added: number; removed: number }) {
  return (
    <span class="diff-counts" aria-label={`${props.added} lines added, ${props.removed} removed`}>
      {props.added > 0 && <span class="added">+{props.added}</span>}
      {props.removed > 0 && <span class="removed">−{props.removed}</span>}
    </span>
  );
}

function Rows(props: { rows: readonly (Line | null)[]; numbers: 0 | 1 | 2; shown: number }) {
  const [isOpen, open] = useState(false);
  const isFolded = !isOpen && props.rows.length > props.shown + SPARE;
  const rows = isFolded ? props.rows.slice(0, props.shown) : props.rows;
  return (
    <>
      <div class="diff-lines" tabIndex={0} role="group" aria-label="Changed lines">
        <div class="diff-body">
          {rows.map((line, at) => (line ? <Row key={at} line={line} numbers={props.numbers} /> : <hr key={at} />))}
        </div>
      </div>
      {isFolded && <MoreLines hidden={props.rows.length - rows.length} open={() => open(true)} />}
    </>
  );
}

const KINDS: Record<string, string> = { "+": "added", "-": "removed", "\\": "note", "#": "note" };

function Row(props: { line: Line; numbers: 0 | 1 | 2 }) {
  const { sign, text, before, after } = props.line;
  return (
    <div class={`diff-line ${KINDS[sign] ?? "same"}`}>
      {props.numbers > 1 && <span class="number before" aria-hidden="true" data-number={before ?? ""} />}
      {props.numbers > 0 && <span class="number after" aria-hidden="true" data-number={after ?? ""} />}
      <span class="sign">{sign}</span>
      <span class="text">{text || "\n"}</span>
    </div>
  );
}

/** The lines of all hunks; null stands between two. */
function rowsOf(hunks: readonly Hunk[], isNumbered: boolean): (Line | null)[] {
  return hunks.flatMap((hunk, at) => (at ? [null, ...linesOf(hunk, isNumbered)] : linesOf(hunk, isNumbered)));
}

function linesOf(hunk: Hunk, isNumbered: boolean): Line[] {
  let before = hunk.old_start ?? 0;
  let after = hunk.new_start ?? 0;
  return (hunk.lines ?? []).map((line) => {
    const sign = line.slice(0, 1);
    const made: Line = { sign, text: line.slice(1) };
    if (!isNumbered || sign === "\\" || sign === "#") return made;
    if (sign !== "+") made.before = before++;
    if (sign !== "-") made.after = after++;
    return made;
  });
}

function textOf(view: DiffView): string {
  const hunks = (view.hunks ?? []).flatMap((hunk) => {
    const lines = hunk.lines ?? [];
    const count = (sign: string) => lines.filter((line) => line[0] === sign || line[0] === " ").length;
    return [`@@ -${hunk.old_start ?? 1},${count("-")} +${hunk.new_start ?? 1},${count("+")} @@`, ...lines];
  });
  return [`--- ${view.is_new ? "/dev/null" : view.path}`, `+++ ${view.path}`, ...hunks, ""].join("\n");
}
