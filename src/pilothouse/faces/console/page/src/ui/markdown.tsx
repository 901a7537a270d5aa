/**
 * Markdown as nodes of the page. Nothing of the text becomes markup but what is made here: HTML in
 * it is shown as the text that it is, and pictures as links.
 */

import { marked, type Token, type Tokens } from "marked";
import type { ComponentChild, VNode } from "preact";
import { useRef } from "preact/hooks";
import { Code } from "./code";
import { escapeHidden } from "./hidden";
import { languageOf } from "./highlighter";

/** Deeper nesting is shown as plain text: nobody reads it, and it would exhaust the stack. */
const DEEPEST = 24;

interface Drawn {
  text: string;
  blocks: Token[];
  nodes: (VNode | null)[];
  /** The level of the last heading up to each block. */
  levels: number[];
}

/**
 * A text that grows is read again from its last block only, and the blocks before it stay the same
 * nodes, so that a long text streams at the cost of a short one.
 */
export function Markdown(props: {
  text: string;
  /** The level of its first headings: one below the heading that it stands under. */
  level?: 2 | 3 | 4;
  /** Who reads it decides on it: a block that would not show all of its words is shown as it is written. */
  isWhole?: boolean;
}) {
  const drawn = useRef<Drawn>({ text: "", blocks: [], nodes: [], levels: [] });
  if (drawn.current.text !== props.text) drawn.current = draw(props.text, drawn.current, props.level ?? 3, props.isWhole ?? false);
  return <div class="markdown">{drawn.current.nodes}</div>;
}

function draw(text: string, before: Drawn, base: number, isWhole: boolean): Drawn {
  const kept = before.text && text.startsWith(before.text) ? settled(before.blocks) : 0;
  const from = before.blocks.slice(0, kept).reduce((length, block) => length + block.raw.length, 0);
  // The lexer has its own idea of line ends and tabs: where the lengths do not agree, all is read again.
  const isSure = before.text.slice(0, from) === before.blocks.slice(0, kept).map((block) => block.raw).join("");
  const start = isSure ? kept : 0;
  const fresh = lex(isSure ? text.slice(from) : text);
  const levels = before.levels.slice(0, start);
  for (const block of fresh) levels.push(levelAfter(block, levels.at(-1) ?? base - 1, base));
  return {
    text,
    blocks: [...before.blocks.slice(0, start), ...fresh],
    nodes: [...before.nodes.slice(0, start), ...fresh.map((block, at) => (isWhole && !showsAll(block) ? written(block, start + at) : topNode(block, start + at, levels)))],
    levels,
  };
}

/** Who goes from heading to heading by ear must not miss a level, whatever the text leaves out. */
function levelAfter(block: Token, last: number, base: number): number {
  if (block.type !== "heading") return last;
  return Math.min(6, base + (block as Tokens.Heading).depth - 1, last + 1);
}

function topNode(block: Token, key: number, levels: readonly number[]): VNode | null {
  if (block.type !== "heading") return blockNode(block, key);
  const Level = `h${levels[key]}` as "h3";
  return (
    <Level key={key} data-depth={(block as Tokens.Heading).depth}>
      {inlineNodes((block as Tokens.Heading).tokens, 1)}
    </Level>
  );
}

function written(block: Token, key: number): VNode {
  return (
    <p key={key} class="literal">
      {block.raw.trim()}
    </p>
  );
}

/** Whether every word of a block is among those that are shown of it. */
function showsAll(block: Token): boolean {
  const left = new Map<string, number>();
  for (const word of wordsOf(shownOf(block))) left.set(word, (left.get(word) ?? 0) + 1);
  return wordsOf(plain(block.raw)).every((word) => {
    const count = left.get(word) ?? 0;
    left.set(word, count - 1);
    return count > 0;
  });
}

function wordsOf(text: string): string[] {
  return text.match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** What of a block can be read, in any order; the marks of lists and the name of a language among it. */
function shownOf(token: Token): string {
  const inner = (tokens: Token[] | undefined) => (tokens ?? []).map(shownOf).join(" ");
  switch (token.type) {
    case "space":
    case "def":
      return "";
    case "code":
      return `${languageOf(firstWord((token as Tokens.Code).lang)) ? firstWord((token as Tokens.Code).lang) : ""} ${(token as Tokens.Code).text}`;
    case "list":
      return (token as Tokens.List).items
        .map((item) => `${/^\s*(\d+)[.)]/.exec(item.raw)?.[1] ?? ""} ${item.task ? "x" : ""} ${inner(item.tokens)}`)
        .join(" ");
    case "table": {
      const { header, rows } = token as Tokens.Table;
      return [header, ...rows].flat().map((cell) => inner(cell.tokens)).join(" ");
    }
    case "html":
    case "hr":
      return token.raw;
    case "image":
      return plain((token as Tokens.Image).text);
    case "codespan":
    case "escape":
      return (token as Tokens.Text).text;
    default:
      return inside(token) ? inner(inside(token)) : plain((token as Tokens.Text).text ?? token.raw);
  }
}

/** How many blocks at the start no later text can change: all before the last that has words. */
function settled(blocks: readonly Token[]): number {
  return Math.max(0, blocks.findLastIndex((block) => block.type !== "space"));
}

function lex(text: string): Token[] {
  try {
    return marked.lexer(text);
  } catch {
    return [{ type: "paragraph", raw: text, text, tokens: [{ type: "text", raw: text, text }] }];
  }
}

// Blocks

function blockNode(token: Token, key: number, depth = 0): VNode | null {
  if (depth > DEEPEST) return <p key={key}>{token.raw}</p>;
  switch (token.type) {
    case "space":
    case "def":
    case "checkbox":
      return null;
    case "heading":
      // In a list or a quote it is no heading of the page.
      return (
        <p key={key} data-depth={(token as Tokens.Heading).depth}>
          <strong>{inlineNodes(token.tokens, depth + 1)}</strong>
        </p>
      );
    case "code":
      return <Code key={key} text={(token as Tokens.Code).text} language={firstWord((token as Tokens.Code).lang)} />;
    case "blockquote":
      return <blockquote key={key}>{blockNodes(token.tokens, depth + 1)}</blockquote>;
    case "list":
      return listNode(token as Tokens.List, key, depth);
    case "table":
      return <Table key={key} token={token as Tokens.Table} depth={depth} />;
    case "hr":
      return <hr key={key} />;
    case "html":
      return (
        <p key={key} class="literal">
          {token.raw.trim()}
        </p>
      );
    case "text":
      return <span key={key}>{token.tokens ? inlineNodes(token.tokens, depth + 1) : plain(token.text)}</span>;
    default:
      return <p key={key}>{inside(token) ? inlineNodes(inside(token), depth + 1) : token.raw}</p>;
  }
}

function inside(token: Token): Token[] | undefined {
  return (token as Tokens.Generic).tokens;
}

function blockNodes(tokens: Token[] | undefined, depth: number): (VNode | null)[] {
  return (tokens ?? []).map((token, at) => blockNode(token, at, depth));
}

function Box(props: { isChecked: boolean }) {
  return <input type="checkbox" checked={props.isChecked} disabled aria-label={props.isChecked ? "Done" : "To do"} />;
}

function listNode(token: Tokens.List, key: number, depth: number): VNode {
  const items = token.items.map((item, at) => (
    <li key={at} class={item.task ? "task" : undefined}>
      {item.task && <Box isChecked={item.checked ?? false} />}
      {blockNodes(item.tokens, depth + 1)}
    </li>
  ));
  if (!token.ordered) return <ul key={key}>{items}</ul>;
  return (
    <ol key={key} start={typeof token.start === "number" ? token.start : 1}>
      {items}
    </ol>
  );
}

function Table(props: { token: Tokens.Table; depth: number }) {
  const { header, rows } = props.token;
  const words = (cell: Tokens.TableCell) => inlineNodes(cell.tokens, props.depth + 1);
  return (
    <div class="md-table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {header.map((cell, at) => (
              <th key={at} data-align={cell.align ?? undefined}>
                {words(cell)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, column) => (
                <td key={column} data-align={cell.align ?? undefined}>
                  {words(cell)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function firstWord(text: string | undefined): string {
  return text?.split(/[\s,{:]/)[0] ?? "";
}

// What stands in a line

function inlineNodes(tokens: Token[] | undefined, depth: number): ComponentChild[] {
  return (tokens ?? []).map((token) => inlineNode(token, depth));
}

function inlineNode(token: Token, depth: number): ComponentChild {
  if (depth > DEEPEST) return token.raw;
  const within = () => inlineNodes(inside(token), depth + 1);
  switch (token.type) {
    case "strong":
      return <strong>{within()}</strong>;
    case "em":
      return <em>{within()}</em>;
    case "del":
      return <del>{within()}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "br":
      return <br />;
    case "link":
      return <SafeLink href={token.href}>{within()}</SafeLink>;
    case "image":
      return <SafeLink href={token.href}>{token.text ? `Image: ${plain(token.text)}` : "Image"}</SafeLink>;
    case "text":
      return token.tokens ? within() : plain(token.text);
    case "escape":
      return token.text;
    default:
      return token.raw;
  }
}

const SAFE = /^(https?|mailto):/i;

/** A link where the address is one that only opens a page or a letter; else its words, and the address as text. */
export function SafeLink(props: { href: string; children: ComponentChild | ComponentChild[] }) {
  const address = safeAddress(props.href);
  if (!address) return <span title={props.href}>{props.children}</span>;
  return (
    <a href={address} rel="noopener noreferrer" target="_blank" title={address}>
      {props.children}
    </a>
  );
}

/** The address if it is safe to follow; null for every other. */
export function safeAddress(href: string): string | null {
  if (!SAFE.test(href)) return null;
  try {
    const url = new URL(href);
    return SAFE.test(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

const REFERENCES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** The lexer leaves character references as they are written, for an HTML that is not made here. */
function plain(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:(amp|lt|gt|quot|apos|nbsp)|#(\d{1,7})|#x([\da-f]{1,6}));/gi, (whole, name, decimal, hex) => {
    if (name) return REFERENCES[(name as string).toLowerCase()] ?? whole;
    const code = decimal ? Number(decimal) : parseInt(hex as string, 16);
    if (!(code > 0 && code <= 0x10ffff)) return whole;
    const sign = String.fromCodePoint(code);
    // What would be hidden stays as it is written: whoever wrote it got past the server's escapes.
    return escapeHidden(sign) === sign ? sign : whole;
  });
}
