/** A row of the list with all that the server tells of it, and the requests that are about rows. */

import { get, post, part, Refusal } from "../api/http";
import type { Listed, Listing, Waiting } from "../api/types";

/** Members that an older server leaves out are absent. */
export interface Row extends Listed {
  model?: string | null;
  mode?: string | null;
  context_percent?: number | null;
  /** In its state since then, in milliseconds since the epoch. */
  since?: number | null;
  waiting_on?: Waiting | null;
  last_line?: string | null;
  reason?: string | null;
  archived?: boolean;
}

export interface RowQuery {
  search?: string;
  state?: string;
  label?: string;
  machine?: string;
  cwd?: string;
  archived?: boolean;
  limit?: number;
  offset?: number;
}

/** Rows, and as of which cursor of the journal they are. */
export interface Rows {
  rows: Row[];
  total: number;
  cursor: number;
}

export async function listRows(query: RowQuery, abort?: AbortSignal): Promise<Rows> {
  const page = await get<Listing>("/api/sessions", { ...query }, abort);
  return { rows: page.sessions, total: page.total ?? page.sessions.length, cursor: page.cursor ?? 0 };
}

/** The same, or nothing from a server that does not know one of the parameters. */
export async function findRows(query: RowQuery, abort?: AbortSignal): Promise<Rows> {
  try {
    return await listRows(query, abort);
  } catch (error) {
    if (abort?.aborted || (error instanceof Refusal && error.code === "invalid")) return { rows: [], total: 0, cursor: 0 };
    throw error;
  }
}

/** The row as it is then. */
export function setArchived(id: string, archived: boolean): Promise<Row> {
  return post<Row>(`/api/sessions/${part(id)}/archive`, { archived });
}

/** The directories whose path begins like this; none where the server cannot tell. */
export function completeDirectories(path: string, abort?: AbortSignal): Promise<string[]> {
  return suggestions("/api/directories", { path }, abort);
}

/** The files of a session that fit what was typed. */
export function completeFiles(id: string, query: string, abort?: AbortSignal): Promise<string[]> {
  return suggestions(`/api/sessions/${part(id)}/files`, { query }, abort);
}

async function suggestions(path: string, query: Record<string, string>, abort?: AbortSignal): Promise<string[]> {
  try {
    const given = await get<string[] | Record<string, unknown>>(path, query, abort);
    const list = Array.isArray(given) ? given : Object.values(given).find(Array.isArray);
    return (list ?? []).filter((each): each is string => typeof each === "string");
  } catch (error) {
    if (abort?.aborted || error instanceof Refusal) return [];
    throw error;
  }
}

/** The last name of a path. */
export function baseName(path: string | null | undefined): string {
  return path?.replace(/\/+$/, "").split("/").at(-1) || path || "";
}

export function titleOf(row: Row): string {
  return row.title.trim() || baseName(row.cwd) || row.session_id.slice(0, 8);
}

/** When it came into its state, as far as the server says. */
export function sinceOf(row: Row): number {
  return row.since ?? row.updated_at;
}

const WAITS: Record<Waiting["what"], string> = {
  api: "Waiting for the model",
  background: "Waiting for work in the background",
  hook: "Waiting for a hook",
  machine: "Waiting for its machine",
  person: "Waiting for you",
  start: "Starting",
  tool: "Running a tool",
};

/** What a session waits on, in words. */
export function waitsOn(waiting: Waiting): string {
  const words = WAITS[waiting.what] ?? waiting.what;
  return waiting.detail ? `${words}: ${waiting.detail}` : words;
}

/** `claude-opus-5-5` as people say it: `opus 5.5`. */
export function modelName(model: string): string {
  const found = /^claude-([a-z]+)-(\d+)(?:-(\d{1,2}))?(?!\d)/.exec(model);
  if (!found) return model;
  return `${found[1]} ${found[2]}${found[3] ? `.${found[3]}` : ""}`;
}
