/** As much of TOML as policy files are written in. The server judges the text; this reads it for display only. */

import { escapeHidden } from "../ui/hidden";

export type TomlValue = string | number | boolean | TomlValue[] | TomlTable;
export interface TomlTable {
  [key: string]: TomlValue;
}

/** One `[[name]]` table, and the line that its header is on, from 0. */
export interface TomlEntry {
  name: string;
  line: number;
  table: TomlTable;
}

/** The tables of a text in their order; throws a SyntaxError at the first thing that cannot be read. */
export function readEntries(text: string): TomlEntry[] {
  const reader = new Reader(text);
  const entries: TomlEntry[] = [];
  let into: TomlTable = {};
  for (reader.skip(true); !reader.isAtEnd; reader.skip(true)) {
    const line = reader.line;
    if (reader.take("[[")) {
      const [name = ""] = reader.keys();
      reader.expect("]]");
      into = {};
      entries.push({ name, line, table: into });
    } else if (reader.take("[")) {
      const [, ...path] = reader.keys();
      reader.expect("]");
      into = tableAt(entries.at(-1)?.table ?? {}, path);
    } else {
      reader.pair(into);
    }
    reader.endLine();
  }
  return entries;
}

function tableAt(table: TomlTable, path: readonly string[]): TomlTable {
  let at = table;
  for (const key of path) {
    const own = Object.hasOwn(at, key) ? at[key] : undefined;
    const next: TomlTable = own && typeof own === "object" && !Array.isArray(own) ? own : emptyTable();
    put(at, key, next);
    at = next;
  }
  return at;
}

const emptyTable = (): TomlTable => ({});

/** Defined, not assigned: `__proto__` is a key like any other. */
function put(table: TomlTable, key: string, value: TomlValue): void {
  Object.defineProperty(table, key, { value, enumerable: true, configurable: true, writable: true });
}

const ESCAPES: Record<string, string> = { b: "\b", t: "\t", n: "\n", f: "\f", r: "\r", e: "\x1b" };
const ESCAPED = /\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|[ \t]*\r?\n\s*|(.))/g;

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  get isAtEnd(): boolean {
    return this.at >= this.text.length;
  }

  get line(): number {
    return this.text.slice(0, this.at).split("\n").length - 1;
  }

  private wrong(what: string): SyntaxError {
    return new SyntaxError(`${what} in line ${this.line + 1}`);
  }

  /** Pass blanks and comments, and line ends too where they mean nothing. */
  skip(overLines: boolean): void {
    this.match(overLines ? /(?:[ \t\r\n]|#[^\n]*)*/y : /[ \t]*/y);
  }

  take(token: string): boolean {
    if (!this.text.startsWith(token, this.at)) return false;
    this.at += token.length;
    return true;
  }

  expect(token: string): void {
    this.skip(false);
    if (!this.take(token)) throw this.wrong(`${token} is missing`);
  }

  endLine(): void {
    if (this.match(/[ \t]*(?:#[^\n]*)?(?:\r?\n|$)/y) === null) throw this.wrong("something follows that should not");
  }

  keys(): string[] {
    const keys: string[] = [];
    do {
      this.skip(false);
      const bare = this.match(/[A-Za-z0-9_-]+/y);
      keys.push(bare ?? this.string());
      this.skip(false);
    } while (this.take("."));
    return keys;
  }

  pair(into: TomlTable): void {
    const keys = this.keys();
    this.expect("=");
    this.skip(false);
    put(tableAt(into, keys.slice(0, -1)), keys.at(-1)!, this.value());
  }

  private value(): TomlValue {
    if (this.take("[")) return this.list();
    if (this.take("{")) return this.inlineTable();
    const first = this.text[this.at];
    if (first === '"' || first === "'") return this.string();
    const word = this.match(/[A-Za-z0-9_+.:-]+/y);
    if (word === null) throw this.wrong("a value is missing");
    if (word === "true" || word === "false") return word === "true";
    const number = Number(word.replaceAll("_", ""));
    return Number.isNaN(number) ? word : number;
  }

  private list(): TomlValue[] {
    const values: TomlValue[] = [];
    for (this.skip(true); !this.take("]"); this.skip(true)) {
      values.push(this.value());
      this.skip(true);
      if (!this.take(",") && this.text[this.at] !== "]") throw this.wrong("a list has no end");
    }
    return values;
  }

  private inlineTable(): TomlTable {
    const table: TomlTable = {};
    for (this.skip(true); !this.take("}"); this.skip(true)) {
      this.pair(table);
      this.skip(true);
      if (!this.take(",") && this.text[this.at] !== "}") throw this.wrong("a table has no end");
    }
    return table;
  }

  private string(): string {
    const quote = ['"""', "'''", '"', "'"].find((each) => this.take(each));
    if (!quote) throw this.wrong("a text is missing");
    if (quote.length === 3) this.match(/\r?\n/y);
    const isPlain = quote[0] === "'";
    const end = this.endOf(quote, isPlain);
    const inner = this.text.slice(this.at, end);
    this.at = end + quote.length;
    return isPlain ? inner : inner.replace(ESCAPED, unescaped);
  }

  private endOf(quote: string, isPlain: boolean): number {
    for (let at = this.at; at < this.text.length; at++) {
      if (!isPlain && this.text[at] === "\\") at++;
      else if (quote.length === 1 && this.text[at] === "\n") break;
      else if (this.text.startsWith(quote, at)) return at;
    }
    throw this.wrong("a text has no end");
  }

  private match(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found === undefined) return null;
    this.at += found.length;
    return found;
  }
}

function unescaped(_all: string, four?: string, eight?: string, two?: string, one?: string): string {
  const code = four ?? eight ?? two;
  if (code) return String.fromCodePoint(Math.min(parseInt(code, 16), 0x10ffff));
  return one ? (ESCAPES[one] ?? one) : "";
}

/** A text as TOML writes it. */
export function quoted(text: string): string {
  const isShown = escapeHidden(text) === text;
  const plain = isShown && !/['\x00-\x1f\x7f]/.test(text) && /["\\]/.test(text);
  return plain ? `'${text}'` : escapeHidden(JSON.stringify(text));
}
