/**
 * One session's conversation: a window of its items, kept current by patches.
 *
 * Each item is a signal of its own, so that a piece of text draws one card anew and not the list.
 * The window is bounded: who scrolls far up leaves the end, and comes back to it with `toEnd`.
 */

import { signal, type Signal } from "@preact/signals";
import { get, isPassing, part } from "../api/http";
import { Stream } from "../api/socket";
import type { ConversationPage, Failed, Patches } from "../api/types";
import { changesOf, ItemWindow, type Changes, type Item } from "./item-window";

export type { Item } from "./item-window";

const PAGE = 60;
/** A page that is not drawn has no frames, and must not gather without an end. */
const LONGEST_WAIT_MS = 1000;
/** An item that was read again and is not certain yet is read again after so long. */
const REREAD_MS = 250;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 8000;

export class Conversation {
  readonly loaded = signal(false);
  /** Why it is not shown. */
  readonly error = signal<Error | null>(null);
  /** Counts how often the stream was there again after it was lost. */
  readonly returns = signal(0);
  /** Whether the end is being looked at: where it is not, the window's start must stay. */
  isAtEnd = true;

  private readonly window = new ItemWindow();
  private stream: Stream<Patches | Failed> | null = null;
  private pending: Changes[] = [];
  private received = 0;
  private frame = 0;
  private timer = 0;
  private loading: Promise<void> | null = null;
  private readonly rereading = new Set<string>();
  /** Counts what was opened: an answer for what was shown before is of no use. */
  private generation = 0;
  private closed = false;

  constructor(readonly sessionId: string) {}

  readonly ids = this.window.ids;
  readonly earlier = this.window.earlier;
  readonly later = this.window.later;
  readonly arrivals = this.window.arrivals;

  /** The item of an id in the window. */
  item(id: string): Signal<Item> | undefined {
    return this.window.item(id);
  }

  /** Read the newest page, or the one around an item, and follow; while the server is away, try again. */
  async open(around?: string): Promise<void> {
    const own = ++this.generation;
    for (let retry = FIRST_RETRY_MS; own === this.generation; retry = Math.min(retry * 2, LONGEST_RETRY_MS)) {
      try {
        await this.read(around, own);
        return;
      } catch (error) {
        if (own !== this.generation) return;
        this.error.value = error as Error;
        if (!isPassing(error)) return;
      } finally {
        if (own === this.generation) this.loaded.value = true;
      }
      await pause(retry);
    }
  }

  close(): void {
    this.closed = true;
    this.generation += 1;
    this.stream?.close();
    this.unschedule();
  }

  /** Show the newest items. */
  async toEnd(): Promise<void> {
    await this.read(undefined, ++this.generation);
  }

  async loadEarlier(): Promise<void> {
    const first = this.ids.peek()[0];
    if (!first || !this.earlier.peek()) return;
    await this.once(() => this.extend({ before: first }, "start"));
  }

  async loadLater(): Promise<void> {
    const last = this.ids.peek().at(-1);
    if (!last || !this.later.peek()) return;
    await this.once(() => this.extend({ after: last }, "end"));
  }

  // Pages

  private async extend(query: { before?: string; after?: string }, at: "start" | "end"): Promise<void> {
    const own = this.generation;
    await this.window.reading(
      () => this.page(query),
      (page) => {
        const ids = this.ids.peek();
        const edge = at === "start" ? ids[0] : ids.at(-1);
        // The window has moved meanwhile: there would be a hole.
        if (own === this.generation && edge === (query.before ?? query.after)) this.window.add(page, at);
      },
    );
    this.readStale();
  }

  private async read(around: string | undefined, own: number): Promise<void> {
    const pages = around ? await this.around(around) : [await this.page({})];
    if (own !== this.generation) return;
    this.error.value = null;
    this.follow(this.window.replace(pages));
  }

  /** A page that ends before an item, and one that begins with it. */
  private async around(item: string): Promise<ConversationPage[]> {
    const before = await this.page({ before: item });
    const last = before.items.at(-1);
    if (last) return [before, await this.page({ after: last.id })];
    // The conversation begins with it.
    const behind = await this.page({ after: item });
    const next = behind.items[0];
    return next ? [await this.page({ before: next.id }), behind] : [await this.page({})];
  }

  private page(query: { before?: string; after?: string; limit?: number }): Promise<ConversationPage> {
    return get<ConversationPage>(`/api/sessions/${part(this.sessionId)}/conversation`, { limit: PAGE, ...query });
  }

  /** One page at a time; who wants another meanwhile waits for the one that is on its way. */
  private once(work: () => Promise<void>): Promise<void> {
    this.loading ??= work().finally(() => (this.loading = null));
    return this.loading;
  }

  /** Read the items again whose text nobody can tell. */
  private readStale(): void {
    for (const id of this.window.stale) if (!this.rereading.has(id)) void this.readAgain(id);
  }

  private async readAgain(id: string): Promise<void> {
    const own = this.generation;
    const ids = this.ids.peek();
    const at = ids.indexOf(id);
    const [before, after] = [ids[at - 1], ids[at + 1]];
    this.rereading.add(id);
    try {
      await this.window.reading(
        () => this.page({ limit: 1, ...(before ? { after: before } : after ? { before: after } : {}) }),
        (page) => {
          const isFound = page.items[0]?.id === id && this.item(id);
          if (own === this.generation && isFound) this.window.refresh(page);
        },
      );
    } catch {
      // The server is away, or the item beside it has gone: what is so later shows.
    }
    if (this.window.stale.has(id)) await pause(REREAD_MS);
    this.rereading.delete(id);
    if (own === this.generation) this.readStale();
  }

  // What changes

  private follow(cursor: number): void {
    this.stream?.close();
    this.unschedule();
    this.pending = [];
    this.received = cursor;
    if (this.closed) return;
    this.stream = new Stream<Patches | Failed>({
      path: `/api/sessions/${part(this.sessionId)}/conversation/ws`,
      after: cursor,
      receive: (frame) => this.receive(frame),
      resumed: () => (this.returns.value += 1),
    });
  }

  private receive(frame: Patches | Failed): void {
    if (frame.type === "failed") return this.startOver();
    if (frame.type !== "patches") return;
    const changes = changesOf(frame, this.received);
    this.received = changes.to;
    this.pending.push(changes);
    this.schedule();
  }

  /** The server does not know the cursor: it has another journal, or the session is gone. */
  private startOver(): void {
    this.stream?.close();
    const own = ++this.generation;
    void pause(FIRST_RETRY_MS).then(() => {
      if (own === this.generation) return this.open();
    });
  }

  /** What comes within a frame of the screen is drawn once. A page that nobody sees gets no frame. */
  private schedule(): void {
    if (this.timer) return;
    this.frame = requestAnimationFrame(() => this.apply());
    this.timer = window.setTimeout(() => this.apply(), LONGEST_WAIT_MS);
  }

  private unschedule(): void {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.timer = 0;
  }

  private apply(): void {
    this.unschedule();
    const pending = this.pending;
    this.pending = [];
    this.window.apply(pending, this.isAtEnd ? "end" : "start");
    this.readStale();
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
