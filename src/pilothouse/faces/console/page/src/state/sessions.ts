/**
 * Every session as a row, and what sessions wait for: listed once, then kept current by one stream.
 *
 * Each row is a signal of its own and each group has its order, so that a change draws one row anew,
 * and a group only where a row comes, goes or moves.
 */

import { batch, computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { get, isPassing } from "../api/http";
import { Stream, type Frame } from "../api/socket";
import type { Question } from "../api/types";
import { toastError } from "../ui/toasts";
import { listRows, sinceOf, type Row, type Rows } from "./rows";

/** What the stream of rows gives. */
interface SessionChanges extends Frame {
  changed?: Row[];
  questions?: Question[];
  removed?: string[];
  /** Too much has changed since: list again. */
  reset?: boolean;
}

/** Where a row stands: what it needs of a person, most urgent first. */
export type Group = "waiting" | "working" | "failed" | "done" | "terminal";
export const GROUPS: readonly Group[] = ["waiting", "working", "failed", "done", "terminal"];
export const GROUP_NAMES: Record<Group, string> = {
  waiting: "Waiting for you",
  working: "Working",
  failed: "Failed",
  done: "Done",
  terminal: "From terminals",
};

const PAGE = 200;
const RETRY_MS = 1000;
/** States that are shown however old they are. */
const URGENT = ["awaiting_input", "active"] as const;
/** The most that one list has. */
const LONGEST = 10_000;
const MOST_QUESTIONS = 1000;

const known = new Map<string, Signal<Row | undefined>>();
const orders: Record<Group, Signal<readonly string[]>> = {
  waiting: signal([]),
  working: signal([]),
  failed: signal([]),
  done: signal([]),
  terminal: signal([]),
};
const asked = signal<ReadonlyMap<string, Question>>(new Map());
/** Counts changes of rows, for what is computed from all of them. */
const version = signal(0);
/** As of which cursor each row is, also that of one which is gone: lists and searches may answer late. */
const asOf = new Map<string, number>();
/** How many of the newest rows were read page by page; older ones may be there besides. */
let paged = 0;

/** Whether there are older sessions than those that were read page by page. */
export const hasOlder = signal(false);
/** Whether the first list has come. */
export const listed = signal(false);
/** The rows, the newest first. */
export const sessions = computed<Row[]>(() => {
  void version.value;
  const rows = [...known.values()].map((each) => each.peek()).filter((row) => row !== undefined);
  return rows.sort((a, b) => b.updated_at - a.updated_at || a.session_id.localeCompare(b.session_id));
});

/** The questions that take an answer, the oldest first. */
export const questions = computed(() =>
  [...asked.value.values()].filter((each) => each.decidable !== false).sort((a, b) => (a.opened_at ?? 0) - (b.opened_at ?? 0)),
);

/** The question of each session that has waited longest. */
export const firstQuestions = computed(() => {
  const first = new Map<string, Question>();
  for (const each of questions.value) if (!first.has(each.session_id)) first.set(each.session_id, each);
  return first;
});

/** The ids of a group's rows in their order: who waits longest first, else the newest first. */
export function groupIds(group: Group): ReadonlySignal<readonly string[]> {
  return orders[group];
}

export function groupOf(row: Row): Group {
  if (row.questions) return "waiting";
  if (row.source === "transcript") return "terminal";
  switch (row.state) {
    case "awaiting_input":
      return "waiting";
    case "active":
      return "working";
    case "error":
      return "failed";
    default:
      return "done";
  }
}

/** The row as a signal, also of a session that is not listed yet. */
export function rowSignal(id: string): ReadonlySignal<Row | undefined> {
  let row = known.get(id);
  if (!row) known.set(id, (row = signal(undefined)));
  return row;
}

export function rowOf(id: string): Row | undefined {
  return rowSignal(id).value;
}

/** The questions of a session, the oldest first. */
export function questionsOf(id: string): Question[] {
  return questions.value.filter((each) => each.session_id === id);
}

export function questionOf(id: string): Question | undefined {
  return asked.value.get(id);
}

type Settled = (row: Row) => void;
const settledListeners = new Set<Settled>();

/** Be told of sessions that were at work and have come to rest; returns how to leave. */
export function onSettled(listener: Settled): () => void {
  settledListeners.add(listener);
  return () => settledListeners.delete(listener);
}

let stream: Stream<SessionChanges> | null = null;
/** Counts who follows: who has left lists nothing any more. */
let following = 0;

/** List everything, and follow what changes from there; while the server is away, try again. */
export async function followSessions(): Promise<void> {
  const own = ++following;
  stream?.close();
  const cursor = await listUntilDone(own);
  if (own !== following || cursor === null) return;
  stream = new Stream<SessionChanges>({ path: "/api/sessions/ws", after: cursor, receive, isMain: true });
}

export function leaveSessions(): void {
  following += 1;
  stream?.close();
  stream = null;
  batch(() => {
    replaceRows([]);
    asOf.clear();
    asked.value = new Map();
    listed.value = false;
  });
}

/** Have older rows, up to as many. */
export async function listMore(count = PAGE): Promise<void> {
  const offset = paged;
  const page = await listRows({ limit: count, offset });
  // Fewer than before: some have gone meanwhile, and others have moved up. The next page has those again.
  paged = Math.min(paged, offset) + page.rows.length;
  batch(() => {
    takeRows(page);
    hasOlder.value = page.rows.length > 0 && paged < page.total;
  });
}

/** Have these rows as well: what a list or a search found. */
export function takeRows(found: Rows): void {
  const rows = found.rows.filter((row) => isNews(row.session_id, found.cursor));
  if (!rows.length) return;
  batch(() => {
    // Many at once are sorted at once: to put each into its place would copy the order each time.
    if (rows.length > 50) return replaceRows([...sessions.peek(), ...rows]);
    for (const row of rows) {
      if (row.archived) dropRow(row.session_id);
      else putRow(row);
    }
    version.value += 1;
  });
}

/** Note as of when a row is; false: what is here is newer. */
function isNews(id: string, cursor: number): boolean {
  if ((asOf.get(id) ?? -1) > cursor) return false;
  asOf.set(id, cursor);
  return true;
}

/** Have a row again, as after it was taken out of the archive. */
export function putBack(row: Row): void {
  takeRows({ rows: [row], total: 1, cursor: asOf.get(row.session_id) ?? 0 });
}

/** Have a row no more, as after it was archived. */
export function forgetRow(id: string): void {
  batch(() => {
    dropRow(id);
    version.value += 1;
  });
}

/** A question was answered here: it is not asked again until the stream says so. */
export function forgetQuestion(id: string): void {
  if (!asked.peek().has(id)) return;
  const next = new Map(asked.peek());
  next.delete(id);
  asked.value = next;
}

/** List, and again until the server answers; the cursor from which to follow, or null where it refuses. */
async function listUntilDone(own: number): Promise<number | null> {
  while (own === following) {
    try {
      return await listAgain(own);
    } catch (error) {
      if (!isPassing(error)) {
        toastError(error);
        return null;
      }
    }
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
  return null;
}

/** Questions that the stream brought while a list was on its way. */
let meanwhile: Question[] | null = null;

async function listAgain(own: number): Promise<number> {
  meanwhile = [];
  const limit = Math.min(Math.max(PAGE, paged), LONGEST);
  const page = await listRows({ limit });
  // Read after them: the stream begins at their cursor, and what was asked until then has to be among these.
  const open = await get<Question[]>("/api/questions", { limit: MOST_QUESTIONS });
  if (own !== following) return page.cursor;
  batch(() => {
    const isNewer = (row: Row) => (asOf.get(row.session_id) ?? -1) > page.cursor;
    const told = sessions.peek().filter(isNewer);
    replaceRows([...page.rows.filter((row) => isNews(row.session_id, page.cursor)), ...told]);
    paged = page.rows.length;
    hasOlder.value = page.total > paged;
    asked.value = new Map(open.map((each) => [each.id, each]));
    takeQuestions(meanwhile ?? []);
    meanwhile = null;
    listed.value = true;
  });
  if (hasOlder.peek()) {
    const urgent = await Promise.all(URGENT.map((state) => listRows({ state, limit: 1000 })));
    if (own === following) urgent.forEach(takeRows);
  }
  return page.cursor;
}

function receive(frame: SessionChanges): void {
  if (frame.type === "failed") {
    // The server does not know the cursor: it has another journal. Its cursors say nothing of what is here.
    asOf.clear();
    setTimeout(() => void followSessions().catch(toastError), RETRY_MS);
    return;
  }
  if (frame.reset) {
    void listUntilDone(following);
    return;
  }
  batch(() => {
    const cursor = frame.cursor ?? 0;
    takeRows({ rows: frame.changed ?? [], total: 0, cursor });
    for (const id of frame.removed ?? []) {
      asOf.set(id, cursor);
      forgetRow(id);
    }
    if (frame.questions?.length) takeQuestions(frame.questions);
    meanwhile?.push(...(frame.questions ?? []));
  });
}

function takeQuestions(given: readonly Question[]): void {
  const next = new Map(asked.peek());
  for (const each of given) {
    if (each.decidable === false) next.delete(each.id);
    else next.set(each.id, each);
  }
  asked.value = next;
}

// Rows in their groups

function putRow(row: Row): void {
  const own = rowSignal(row.session_id) as Signal<Row | undefined>;
  const before = own.peek();
  const group = groupOf(row);
  own.value = row;
  if (before && isAtWork(before) && !isAtWork(row)) for (const listener of settledListeners) listener(row);
  if (before && groupOf(before) === group && sinceOf(before) === sinceOf(row)) return;
  if (before) takeOut(groupOf(before), row.session_id);
  putIn(group, row);
}

function isAtWork(row: Row): boolean {
  return row.state === "active" || row.state === "awaiting_input";
}

function dropRow(id: string): void {
  const own = known.get(id);
  const before = own?.peek();
  if (!own || !before) return;
  takeOut(groupOf(before), id);
  own.value = undefined;
  // Those behind it have moved up by one.
  paged = Math.max(0, paged - 1);
}

/** Have these rows and no others; of several with one id the last. */
function replaceRows(rows: readonly Row[]): void {
  const next = new Map(rows.map((row) => [row.session_id, row]));
  const grouped: Record<Group, Row[]> = { waiting: [], working: [], failed: [], done: [], terminal: [] };
  for (const [id, row] of known) if (!next.has(id)) row.value = undefined;
  for (const row of next.values()) {
    const own = rowSignal(row.session_id) as Signal<Row | undefined>;
    own.value = row.archived ? undefined : row;
    if (!row.archived) grouped[groupOf(row)].push(row);
  }
  for (const group of GROUPS) {
    const goesFirst = orderOf(group);
    orders[group].value = grouped[group].sort((a, b) => (goesFirst(a, b) ? -1 : 1)).map((row) => row.session_id);
  }
  version.value += 1;
}

function takeOut(group: Group, id: string): void {
  orders[group].value = orders[group].peek().filter((each) => each !== id);
}

function putIn(group: Group, row: Row): void {
  const ids = [...orders[group].peek()];
  const goesFirst = orderOf(group);
  let low = 0;
  let high = ids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const other = known.get(ids[middle]!)?.peek();
    if (other && goesFirst(other, row)) low = middle + 1;
    else high = middle;
  }
  ids.splice(low, 0, row.session_id);
  orders[group].value = ids;
}

function orderOf(group: Group): (a: Row, b: Row) => boolean {
  return group === "waiting" ? isEarlier : isLater;
}

function isEarlier(a: Row, b: Row): boolean {
  return sinceOf(a) < sinceOf(b) || (sinceOf(a) === sinceOf(b) && a.session_id < b.session_id);
}

function isLater(a: Row, b: Row): boolean {
  return sinceOf(a) > sinceOf(b) || (sinceOf(a) === sinceOf(b) && a.session_id < b.session_id);
}
