/** Starting a session: the request, and the choices that were made last. */

import { post } from "../api/http";
import type { SessionOptions, Start, Started } from "../api/types";
import type { Content } from "../steering/images";
import { keep, kept, readKept } from "../state/kept";
import { completeDirectories } from "../state/rows";
import { sessions } from "../state/sessions";
import type { Typed } from "./advanced-options";

/** The choices of the form; empty text where nothing was chosen. */
export interface Choices {
  cwd: string;
  model: string;
  mode: string;
  budget: string;
  machine: string;
  label: string;
}

/** Where the draft of a new session stands, with its images. */
export const NEW_DRAFT = "new";

const KEPT = "pilothouse.start";
const NONE: Choices = { cwd: "", model: "", mode: "", budget: "", machine: "", label: "" };
const MOST_DIRECTORIES = 20;

/** What was chosen and typed in the form for a session that is not started yet. */
export const begunChoices = kept<Partial<Choices>>("pilothouse.new.choices", {});
export const begunOptions = kept<Typed>("pilothouse.new.options", {});

export function lastChoices(): Choices {
  return { ...NONE, ...readKept<Partial<Choices>>(KEPT, {}) };
}

export function keepChoices(choices: Choices): void {
  keep(KEPT, withoutBypass(choices));
}

/** Nobody should bypass permissions by habit. */
export function withoutBypass<T extends Partial<Choices>>(choices: T): T {
  return choices.mode === "bypassPermissions" ? { ...choices, mode: "" } : choices;
}

/** The directories of the newest sessions on a machine, each once. */
export function recentDirectories(machine = ""): string[] {
  const all = sessions.peek().flatMap((row) => (row.cwd && (row.machine ?? "") === machine ? [row.cwd] : []));
  return [...new Set(all)].slice(0, MOST_DIRECTORIES);
}

/** `~` is the home of whoever runs the server: only the server knows where that is. */
export async function wholePath(typed: string): Promise<string> {
  const path = typed.trim().replace(/(?<=.)\/+$/, "");
  if (!/^~(\/|$)/.test(path)) return path;
  const [first] = await completeDirectories("~/");
  const home = first?.slice(0, first.lastIndexOf("/"));
  return home ? home + path.slice(1) : path;
}

export function startSession(start: Start): Promise<Started> {
  return post<Started>("/api/sessions", start);
}

/** The request that the form makes; what was not chosen is left out. */
export function startOf(prompt: Content, choices: Choices, advanced: SessionOptions, key: string): Start {
  const options: SessionOptions = { ...advanced };
  if (choices.model.trim()) options.model = choices.model.trim();
  if (choices.mode) options.mode = choices.mode as NonNullable<SessionOptions["mode"]>;
  if (choices.machine) options.machine = choices.machine;
  const start: Start = { prompt, cwd: choices.cwd, options, key };
  if (choices.label.trim()) start.label = choices.label.trim();
  if (choices.budget.trim()) start.caps = { session_usd: Number(choices.budget) };
  return start;
}
