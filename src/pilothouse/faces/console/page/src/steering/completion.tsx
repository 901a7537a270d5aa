/** What completes a text while it is typed: `/` for commands at its beginning, `@` for files. */

import { useEffect, useState } from "preact/hooks";
import { get, part } from "../api/http";
import { completeFiles } from "../state/rows";
import { rowSignal, sessions } from "../state/sessions";
import { toastError } from "../ui/toasts";

export interface Suggestion {
  /** What replaces the word that is typed. */
  text: string;
  name: string;
  note: string;
}

interface Word {
  kind: "command" | "file";
  from: number;
  to: number;
  query: string;
}

interface Command {
  name: string;
  description?: string;
  argumentHint?: string;
  aliases?: string[];
}

const MOST = 50;
const FILES_AFTER_MS = 120;
const commands = new Map<string, Promise<Command[]>>();

/** The word before the caret, if it is one that can be completed. */
export function wordAt(text: string, caret: number): Word | null {
  const before = text.slice(0, caret);
  const command = /^\/(\S*)$/.exec(before);
  if (command) return { kind: "command", from: 0, to: caret, query: command[1] ?? "" };
  const file = /(?:^|\s)@(\S*)$/.exec(before);
  if (!file) return null;
  const query = file[1] ?? "";
  return { kind: "file", from: caret - query.length - 1, to: caret, query };
}

export interface Completion {
  suggestions: readonly Suggestion[];
  at: number;
  /** Enter takes it: the person has gone to it, or has typed a part of it that is no whole name yet. */
  isMeant: boolean;
  move: (by: number) => void;
  close: () => void;
  /** The text with a suggestion in the place of the word, and where the caret is then. */
  taken: (suggestion: Suggestion) => { text: string; caret: number };
}

/** Suggestions for what is typed. Commands are asked of a CLI that lives, so that asking starts none. */
export function useCompletion(id: string, text: string, caret: number, isLive: boolean): Completion {
  const word = wordAt(text, caret);
  const key = word ? `${word.kind} ${word.query}` : "";
  const [found, setFound] = useState<readonly Suggestion[]>([]);
  const [at, setAt] = useState(0);
  const [isMoved, setMoved] = useState(false);
  const [closed, setClosed] = useState("");

  useEffect(() => {
    setAt(0);
    setMoved(false);
    if (!word) {
      setFound([]);
      return;
    }
    const abort = new AbortController();
    const show = (suggestions: Suggestion[]) => abort.signal.aborted || setFound(suggestions);
    const timer = setTimeout(
      () => {
        const asked = word.kind === "file" ? filesFor(id, word.query, abort.signal) : commandsFor(isLive ? id : neighbourOf(id), word.query);
        asked.then(show).catch((error) => abort.signal.aborted || toastError(error));
      },
      word.kind === "file" ? FILES_AFTER_MS : 0,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [id, key, isLive]);

  const suggestions = word && closed !== key ? found : [];
  return {
    suggestions,
    at,
    isMeant: isMoved || fits(suggestions[at], word),
    move: (by) => {
      setMoved(true);
      setAt((at + by + suggestions.length) % Math.max(1, suggestions.length));
    },
    close: () => setClosed(key),
    taken: (suggestion) => {
      const from = word?.from ?? caret;
      const put = suggestion.text + " ";
      return { text: text.slice(0, from) + put + text.slice(word?.to ?? caret).replace(/^ /, ""), caret: from + put.length };
    },
  };
}

/** Letters here and there are no name that somebody meant to complete, and a whole name is complete. */
function fits(suggestion: Suggestion | undefined, word: Word | null): boolean {
  if (!suggestion || !word?.query) return false;
  const name = suggestion.name.toLowerCase().replace(/^\//, "");
  const typed = word.query.toLowerCase();
  return name !== typed && name.includes(typed);
}

async function filesFor(id: string, query: string, abort: AbortSignal): Promise<Suggestion[]> {
  const paths = await completeFiles(id, query, abort);
  return paths.slice(0, MOST).map((path) => ({ text: `@${path}`, name: path, note: "" }));
}

/** A session with a living CLI in the same directory: it has the same commands. */
function neighbourOf(id: string): string | null {
  const cwd = rowSignal(id).peek()?.cwd;
  return sessions.peek().find((row) => row.live && !row.foreign && row.cwd === cwd)?.session_id ?? null;
}

async function commandsFor(id: string | null, query: string): Promise<Suggestion[]> {
  if (!id) return [];
  let known = commands.get(id);
  if (!known) {
    known = get<Command[]>(`/api/sessions/${part(id)}/commands`);
    commands.set(id, known);
    known.catch(() => commands.delete(id));
  }
  const typed = query.toLowerCase();
  const ranked = (await known)
    .map((each) => ({ each, rank: rankOf(each, typed) }))
    .filter(({ rank }) => rank < 3)
    .sort((a, b) => a.rank - b.rank);
  return ranked.slice(0, MOST).map(({ each }) => ({
    text: `/${each.name}`,
    name: `/${each.name}`,
    note: [each.description, each.argumentHint].filter(Boolean).join(" · "),
  }));
}

function rankOf(command: Command, typed: string): number {
  const names = [command.name, ...(command.aliases ?? [])].map((name) => name.toLowerCase());
  if (names[0]?.startsWith(typed)) return 0;
  if (names.some((name) => name.startsWith(typed))) return 1;
  return names.some((name) => name.includes(typed)) ? 2 : 3;
}

export function Suggestions(props: { id: string; completion: Completion; onTake: (suggestion: Suggestion) => void }) {
  const { suggestions, at } = props.completion;
  useEffect(() => {
    document.getElementById(`${props.id}-${at}`)?.scrollIntoView({ block: "nearest" });
  }, [at]);
  if (!suggestions.length) return null;
  return (
    <ul id={props.id} class="suggestions" role="listbox" aria-label="Suggestions">
      {suggestions.map((each, index) => (
        <li
          key={each.text}
          id={`${props.id}-${index}`}
          role="option"
          aria-selected={index === at}
          // The field keeps the focus.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => props.onTake(each)}
        >
          <span class="mono">{each.name}</span>
          {each.note && <span class="cut faint small">{each.note}</span>}
        </li>
      ))}
    </ul>
  );
}
