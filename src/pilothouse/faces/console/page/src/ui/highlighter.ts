/** Colours for code: grammars come one by one, when the first text in their language is shown. */

import { signal } from "@preact/signals";
import type { createLowlight } from "lowlight";

type Lowlight = ReturnType<typeof createLowlight>;
type Grammar = Parameters<Lowlight["register"]>[1];
export type Tree = ReturnType<Lowlight["highlight"]>;

/** Longer texts are shown without colours: making them would hold up the page. */
const LONGEST = 40_000;

const GRAMMARS: Record<string, () => Promise<{ default: Grammar }>> = {
  bash: () => import("highlight.js/lib/languages/bash"),
  c: () => import("highlight.js/lib/languages/c"),
  cpp: () => import("highlight.js/lib/languages/cpp"),
  csharp: () => import("highlight.js/lib/languages/csharp"),
  css: () => import("highlight.js/lib/languages/css"),
  diff: () => import("highlight.js/lib/languages/diff"),
  dockerfile: () => import("highlight.js/lib/languages/dockerfile"),
  go: () => import("highlight.js/lib/languages/go"),
  ini: () => import("highlight.js/lib/languages/ini"),
  java: () => import("highlight.js/lib/languages/java"),
  javascript: () => import("highlight.js/lib/languages/javascript"),
  json: () => import("highlight.js/lib/languages/json"),
  kotlin: () => import("highlight.js/lib/languages/kotlin"),
  makefile: () => import("highlight.js/lib/languages/makefile"),
  markdown: () => import("highlight.js/lib/languages/markdown"),
  php: () => import("highlight.js/lib/languages/php"),
  python: () => import("highlight.js/lib/languages/python"),
  ruby: () => import("highlight.js/lib/languages/ruby"),
  rust: () => import("highlight.js/lib/languages/rust"),
  sql: () => import("highlight.js/lib/languages/sql"),
  swift: () => import("highlight.js/lib/languages/swift"),
  typescript: () => import("highlight.js/lib/languages/typescript"),
  xml: () => import("highlight.js/lib/languages/xml"),
  yaml: () => import("highlight.js/lib/languages/yaml"),
};

/** Other names of a language: what people write behind a fence, and how its files end. */
const ALIASES: Record<string, string> = {
  bashrc: "bash", cc: "cpp", cfg: "ini", cjs: "javascript", console: "bash", cs: "csharp", "c++": "cpp", cxx: "cpp",
  env: "ini", h: "c", hpp: "cpp", htm: "xml", html: "xml", js: "javascript", json5: "json", jsonc: "json",
  jsonl: "json", jsx: "javascript", kt: "kotlin", less: "css", md: "markdown", mjs: "javascript", mk: "makefile",
  mts: "typescript", patch: "diff", py: "python", pyi: "python", rb: "ruby", rs: "rust", scss: "css", sh: "bash",
  shell: "bash", svg: "xml", toml: "ini", ts: "typescript", tsx: "typescript", vue: "xml", yml: "yaml", zsh: "bash",
};

const ready = signal<ReadonlySet<string>>(new Set());
const asked = new Set<string>();
let lowlight: Promise<Lowlight> | null = null;
let loaded: Lowlight | null = null;

/** The language's own name, or nothing where it has no colours here. */
export function languageOf(name: string | undefined): string | undefined {
  const given = (name ?? "").trim().toLowerCase();
  const known = Object.hasOwn(ALIASES, given) ? ALIASES[given]! : given;
  return Object.hasOwn(GRAMMARS, known) ? known : undefined;
}

/** The language of a file, by its name. */
export function languageOfPath(path: string): string | undefined {
  const name = path.split(/[/\\]/).at(-1) ?? "";
  return languageOf(name.includes(".") ? name.split(".").at(-1) : name);
}

/** The tree of a text; null as long as its grammar is not there, and for what has none. */
export function highlighted(text: string, language: string | undefined): Tree | null {
  const known = languageOf(language);
  if (!known || text.length > LONGEST) return null;
  if (!ready.value.has(known)) {
    if (!asked.has(known)) void load(known);
    return null;
  }
  return loaded!.highlight(known, text);
}

async function load(name: string): Promise<void> {
  asked.add(name);
  try {
    lowlight ??= import("./lowlight").then(({ createLowlight }) => createLowlight());
    const [made, grammar] = await Promise.all([lowlight, GRAMMARS[name]!()]);
    made.register(name, grammar.default);
    loaded = made;
    ready.value = new Set([...ready.peek(), name]);
  } catch {
    // The server was away: code stays without colours until the next text in this language.
    asked.delete(name);
    lowlight = null;
  }
}
