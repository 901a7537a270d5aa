/** A piece of code: in colours once its grammar is there, with a way to copy it, folded where it is long. */

import type { ComponentChild } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { CopyButton } from "./copy";
import { highlighted, type Tree } from "./highlighter";

/** As many lines are shown without being asked for; a few more are not worth a button. */
const SHOWN = 40;
const SPARE = 8;
/** While a text grows it is coloured again so often at most. */
const PAUSE_MS = 250;

type Node = Tree["children"][number];

export function Code(props: { text: string; language?: string; firstLine?: number; shown?: number }) {
  const [isOpen, open] = useState(false);
  const { kept, hidden } = firstLines(props.text, isOpen ? Infinity : (props.shown ?? SHOWN));
  const label = props.language ? `Code, ${props.language}` : "Code";
  return (
    <figure class="code" data-language={props.language || undefined}>
      <div class="code-scroll" tabIndex={0} role="group" aria-label={label}>
        {props.firstLine !== undefined && <LineNumbers first={props.firstLine} text={kept} />}
        <pre>
          <Coloured text={kept} language={props.language} />
        </pre>
      </div>
      <CopyButton text={props.text} class="copy floating" />
      {hidden > 0 && <MoreLines hidden={hidden} open={() => open(true)} />}
    </figure>
  );
}

/** The button behind a text that was folded. */
export function MoreLines(props: { hidden: number; open: () => void; what?: string }) {
  const lines = props.hidden === 1 ? "line" : "lines";
  return (
    <button type="button" class="more-lines" onClick={props.open}>
      Show {props.hidden.toLocaleString()} {props.what ?? "more"} {lines}
    </button>
  );
}

/** The first lines of a text, and how many there are behind them. */
export function firstLines(text: string, shown: number): { kept: string; hidden: number } {
  const end = indexOfLine(text, shown);
  if (end < 0) return { kept: text, hidden: 0 };
  const hidden = countLines(text, end);
  return hidden <= SPARE ? { kept: text, hidden: 0 } : { kept: text.slice(0, end - 1), hidden };
}

/** Where the line of a number begins, counted from 0; -1: there is none, or nothing stands in it. */
function indexOfLine(text: string, line: number): number {
  if (line === Infinity) return -1;
  let at = 0;
  for (let passed = 0; passed < line; passed++) {
    at = text.indexOf("\n", at) + 1;
    if (at === 0) return -1;
  }
  return at < text.length ? at : -1;
}

export function countLines(text: string, from = 0): number {
  let count = text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n", from); at >= 0; at = text.indexOf("\n", at + 1)) count++;
  return count;
}

function LineNumbers(props: { first: number; text: string }) {
  const numbers = Array.from({ length: countLines(props.text) }, (_, at) => props.first + at);
  return (
    <pre class="line-numbers" aria-hidden="true">
      {numbers.join("\n")}
    </pre>
  );
}

/**
 * The text in colours. One that grows keeps the colours that it has, with the new piece plain
 * behind them, and is coloured again after a pause: not with every piece.
 */
function Coloured(props: { text: string; language?: string | undefined }) {
  const { text, language } = props;
  const done = useRef<{ text: string; language?: string | undefined; tree: Tree } | null>(null);
  const [, again] = useState(0);
  const known = done.current;
  const grows = known !== null && known.language === language && text !== known.text && text.startsWith(known.text);
  const isStale = known === null || known.language !== language || (text !== known.text && !grows);
  if (isStale) {
    const tree = highlighted(text, language);
    done.current = tree && { text, language, tree };
  }
  useEffect(() => {
    if (!grows) return;
    const timer = setTimeout(() => {
      done.current = null;
      again((count) => count + 1);
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, grows]);
  if (!done.current) return <code>{text}</code>;
  return (
    <code>
      {nodesOf(done.current.tree.children)}
      {text.slice(done.current.text.length)}
    </code>
  );
}

function nodesOf(nodes: readonly Node[]): ComponentChild[] {
  return nodes.map((node) => {
    if (node.type === "text") return node.value;
    if (node.type !== "element") return null;
    return <span class={classOf(node.properties.className)}>{nodesOf(node.children as Node[])}</span>;
  });
}

function classOf(names: unknown): string {
  return Array.isArray(names) ? names.join(" ") : "";
}
