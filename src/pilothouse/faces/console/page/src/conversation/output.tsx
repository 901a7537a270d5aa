/** Text that a tool gave back: its end first, since that is where a command says how it went. */

import { useState } from "preact/hooks";
import { countLines, firstLines, MoreLines } from "../ui/code";
import { CopyButton } from "../ui/copy";
import { showRaw } from "./raw-dialog";

const SHOWN = 12;
const SPARE = 4;
/** What terminals draw with: colours, and where the next sign goes. */
// eslint-disable-next-line no-control-regex
const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

export function Output(props: { text: string; isBad?: boolean; label?: string; fromStart?: boolean }) {
  const [isOpen, open] = useState(false);
  const text = plainOutput(props.text);
  const shown = isOpen ? Infinity : SHOWN;
  const { kept, hidden } = props.fromStart ? firstLines(text, shown) : lastLines(text, shown);
  const more = <MoreLines hidden={hidden} what={props.fromStart ? "more" : "earlier"} open={() => open(true)} />;
  return (
    <figure class={props.isBad ? "output bad" : "output"}>
      {hidden > 0 && !props.fromStart && more}
      <pre tabIndex={0} role="group" aria-label={props.label ?? "Output"}>
        {kept}
      </pre>
      {hidden > 0 && props.fromStart && more}
      <CopyButton text={props.text} class="copy floating" />
    </figure>
  );
}

/** The text as a terminal would leave it: without its commands, and only the last of lines that were written over. */
export function plainOutput(text: string): string {
  const plain = text.includes("\u001b") ? text.replace(ESCAPES, "") : text;
  const ended = plain.replace(/\r+\n/g, "\n").replace(/\n+$/, "");
  return ended.includes("\r") ? ended.replace(/[^\n]*\r(?=[^\n])/g, "") : ended;
}

function lastLines(text: string, shown: number): { kept: string; hidden: number } {
  const hidden = countLines(text) - shown;
  if (hidden <= SPARE) return { kept: text, hidden: 0 };
  let at = text.length;
  for (let passed = 0; passed < shown; passed++) at = text.lastIndexOf("\n", at - 1);
  return { kept: text.slice(at + 1), hidden };
}

/** Says how much the server left out, and where all of it is. */
export function LeftOut(props: { cut: number | undefined; sessionId: string; id: string }) {
  if (!props.cut) return null;
  return (
    <p class="left-out">
      {props.cut.toLocaleString()} more characters are not shown.{" "}
      <button type="button" class="plain-action" onClick={() => showRaw(props.sessionId, props.id)}>
        Show the raw lines
      </button>
    </p>
  );
}
