/**
 * The newest events of the journal that fit a filter, and those that come.
 *
 * The server reads the journal forwards from a cursor, so what is earlier is read in stretches that
 * end where the last one began. At most 1,000 rows are held: who goes far back leaves the newest.
 */

import { batch, signal } from "@preact/signals";
import { get, part } from "../api/http";
import { Stream, type Frame } from "../api/socket";
import type { Batch, Event, Events, Failed, Gap } from "../api/types";
import { toastError } from "../ui/toasts";
import { readHealth } from "./health";

export interface Filter {
  session: string;
  /** Empty: every kind. */
  kind: string;
  text: string;
}

export interface Row {
  key: string;
  seq: number;
  event: Event | null;
  gap: Gap | null;
  /** The type that a message of the CLI's has. */
  what: string;
  /** Characters of the body. */
  size: number;
}

const MOST = 1000;
const PAGE = 500;
/** So many rows are wanted at once, and so many events are looked through for them. */
const WANTED = 100;
const MOST_LOOKED_AT = 5000;
const WIDEST = 20_000;
const FLUSH_MS = 200;

export class JournalFeed {
  /** The newest first. */
  readonly rows = signal<readonly Row[]>([]);
  /** Everything after this was looked at; 0: all there is. */
  readonly from = signal(0);
  readonly isLoading = signal(true);
  readonly isPaused = signal(false);

  private cursor = 0;
  /** The newest rows were let go. */
  private isCutOff = false;
  private stream: Stream<Frame> | null = null;
  private pending: Row[] = [];
  private timer = 0;
  private readonly abort = new AbortController();

  constructor(readonly filter: Filter) {}

  /** Show the newest, and follow. */
  async open(): Promise<void> {
    await this.during(() => this.toNewest());
  }

  close(): void {
    this.abort.abort();
    this.hold();
  }

  pause(): void {
    if (this.isPaused.peek()) return;
    this.flush();
    this.hold();
    this.isPaused.value = true;
  }

  /** Go on from where it was, or from the newest where that is too far away. */
  async resume(): Promise<void> {
    await this.during(async () => {
      const { cursor } = await readHealth(this.abort.signal);
      if (this.isCutOff || cursor - this.cursor > MOST) await this.toNewest();
      else this.follow();
      this.isPaused.value = false;
    });
  }

  /** Have earlier rows, too. */
  async earlier(): Promise<void> {
    await this.during(() => this.lookBack());
  }

  private async toNewest(): Promise<void> {
    const { session } = this.filter;
    // A stream of a session that is not there would be tried again for ever; this says so once.
    if (session) await get(`/api/sessions/${part(session)}`, {}, this.abort.signal);
    const { cursor } = await readHealth(this.abort.signal);
    this.cursor = cursor;
    this.isCutOff = false;
    this.from.value = cursor;
    this.rows.value = [];
    await this.lookBack();
    this.follow();
  }

  private async during(work: () => Promise<void>): Promise<void> {
    this.isLoading.value = true;
    try {
      await work();
    } catch (error) {
      if (!this.abort.signal.aborted) toastError(error);
    } finally {
      this.isLoading.value = false;
    }
  }

  // Backwards

  private async lookBack(): Promise<void> {
    let width = PAGE;
    let found: Row[] = [];
    let lookedAt = 0;
    let end = this.from.peek();
    while (end > 0 && found.length < WANTED && lookedAt < MOST_LOOKED_AT) {
      const start = Math.max(0, end - width);
      const { rows, count } = await this.between(start, end);
      found = [...found, ...rows.reverse()];
      lookedAt += count;
      // Few events of this session: look further at once.
      if (count < PAGE / 4) width = Math.min(width * 2, WIDEST);
      end = start;
    }
    this.append(found, end);
  }

  private append(found: readonly Row[], from: number): void {
    const rows = unique([...this.rows.peek(), ...found]);
    if (rows.length > MOST) {
      this.pause();
      this.isCutOff = true;
    }
    batch(() => {
      this.rows.value = rows.slice(-MOST);
      this.from.value = from;
    });
  }

  private async between(start: number, end: number): Promise<{ rows: Row[]; count: number }> {
    const rows: Row[] = [];
    let count = 0;
    for (let after = start; after < end; ) {
      const query = { after, limit: Math.min(PAGE, end - after), session_id: this.filter.session };
      const page = await get<Batch>("/api/events", query, this.abort.signal);
      const events = page.events.filter((each) => each.seq <= end);
      count += events.length;
      rows.push(...this.rowsOf(events, (page.gaps ?? []).filter((gap) => gap.last > start && gap.last <= end)));
      if (page.cursor <= after) break;
      after = page.cursor;
    }
    return { rows, count };
  }

  // Forwards

  private follow(): void {
    this.hold();
    if (this.abort.signal.aborted) return;
    const query = this.filter.session ? `?session_id=${encodeURIComponent(this.filter.session)}` : "";
    const path = `/api/ws${query}`;
    this.stream = new Stream<Frame>({ path, after: this.cursor, receive: (frame) => this.receive(frame) });
  }

  private hold(): void {
    this.stream?.close();
    this.stream = null;
    clearTimeout(this.timer);
    this.timer = 0;
  }

  private receive(frame: Frame): void {
    if (frame.type === "failed") toastError(new Error((frame as unknown as Failed).problem.detail));
    if (frame.type !== "events") return;
    const { events, gaps, cursor } = frame as unknown as Events;
    this.cursor = cursor;
    this.pending.push(...this.rowsOf(events, gaps ?? []));
    if (this.pending.length > MOST) this.pending = this.pending.slice(-MOST);
    if (this.pending.length && !this.timer) this.timer = window.setTimeout(() => this.flush(), FLUSH_MS);
  }

  private flush(): void {
    this.timer = 0;
    if (!this.pending.length) return;
    const rows = unique([...this.pending.reverse(), ...this.rows.peek()]);
    this.pending = [];
    batch(() => {
      if (rows.length > MOST) this.from.value = rows[MOST - 1]!.seq - 1;
      this.rows.value = rows.slice(0, MOST);
    });
  }

  private rowsOf(events: readonly Event[], gaps: readonly Gap[]): Row[] {
    const rows = events.map(rowOf).filter((row): row is Row => this.fits(row));
    const isWhole = !this.filter.kind && !this.filter.text;
    if (isWhole) rows.push(...gaps.map(gapRow));
    return rows.sort((a, b) => a.seq - b.seq);
  }

  private fits(row: Row): boolean {
    const { kind, text } = this.filter;
    if (kind && row.event!.kind !== kind) return false;
    return !text || `${row.event!.kind} ${JSON.stringify(row.event!.body)}`.toLowerCase().includes(text.toLowerCase());
  }
}

function unique(rows: readonly Row[]): Row[] {
  const seen = new Set<string>();
  return rows.filter((row) => !seen.has(row.key) && seen.add(row.key));
}

function rowOf(event: Event): Row {
  const size = JSON.stringify(event.body)?.length ?? 0;
  return { key: String(event.seq), seq: event.seq, event, gap: null, what: whatOf(event), size };
}

function gapRow(gap: Gap): Row {
  return { key: `gap ${gap.first} ${gap.last}`, seq: gap.last, event: null, gap, what: "", size: 0 };
}

/** `assistant`, `system/init`, `control_request/can_use_tool`: what a line of the CLI's says it is. */
function whatOf(event: Event): string {
  if (event.kind !== "cli" && event.kind !== "partial") return "";
  const body = event.body as Record<string, unknown> | null;
  const inner = (body?.request ?? body?.response ?? body?.event ?? body) as Record<string, unknown> | undefined;
  const detail = inner?.subtype ?? (inner === body ? undefined : inner?.type);
  return [body?.type, detail].filter((each) => typeof each === "string").join("/");
}
