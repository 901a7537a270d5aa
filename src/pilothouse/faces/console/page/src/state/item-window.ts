/**
 * The items of a conversation that are held, put together from pages and from the patches of a stream.
 *
 * Each comes on its own way, so a page is hardly ever as of the cursor that the stream is at. What the
 * stream brought while a page was on its way is applied to that page; of what it brings later, that
 * which the page had already is left. A frame may join changes from before a page and behind it:
 * text that such a frame appends is in the page in part, and nobody can tell which part. The item is
 * `stale` then, and has to be read again.
 */

import { batch, signal, type Signal } from "@preact/signals";
import type { ConversationPage, Patch, Patches } from "../api/types";

export type Item = NonNullable<Patch["item"]>;

/** What changed from one cursor to another. */
export interface Changes {
  from: number;
  /** As `from`: a part of what goes further, as it is later; what follows begins behind that. */
  to: number;
  patches: readonly Patch[];
  unfinished: readonly string[] | null;
}

/** The most items that are held at once. */
const MOST = 600;

type End = "start" | "end";
/** The ids as they are to be: a copy, made by the first who changes it. */
type Order = () => string[];

export class ItemWindow {
  /** The ids of the items in the window, in their order. */
  readonly ids = signal<readonly string[]>([]);
  /** There are items before the first of the window. */
  readonly earlier = signal(false);
  /** The window does not reach the end: what is new is not in it. */
  readonly later = signal(false);
  /** Counts what has come at the end since the conversation was opened. */
  readonly arrivals = signal(0);
  /** Items whose text cannot be told from page and patches: they are to be read again. */
  readonly stale = new Set<string>();

  private readonly items = new Map<string, Signal<Item>>();
  /** Of what a page brought that is newer than the stream: as of which cursor it is. */
  private readonly newer = new Map<string, number>();
  /** As of which cursor the window has all items at the end, where a page said so. */
  private endAsOf = -1;
  private cursor = 0;
  private unfinished: ReadonlySet<string> | null = null;
  private reads = 0;
  /** What was applied since the first of the pages that are on their way was asked for. */
  private log: Changes[] = [];

  item(id: string): Signal<Item> | undefined {
    return this.items.get(id);
  }

  /** Read a page, and remember meanwhile what it may be without. */
  async reading<T>(read: () => Promise<T>, use: (read: T) => void): Promise<void> {
    this.reads += 1;
    try {
      use(await read());
    } finally {
      this.reads -= 1;
      if (!this.reads) this.log = [];
    }
  }

  /** Have these pages, which follow each other, and nothing else; the cursor from which to follow. */
  replace(pages: readonly ConversationPage[]): number {
    const cursor = Math.min(...pages.map((page) => page.cursor));
    const last = pages.at(-1)!;
    batch(() => {
      for (const forgotten of [this.items, this.newer, this.stale]) forgotten.clear();
      this.unfinished = null;
      this.log = [];
      this.cursor = cursor;
      for (const page of pages) this.keep(page);
      this.ids.value = pages.flatMap((page) => page.items.map((each) => each.id));
      this.earlier.value = pages[0]!.earlier ?? false;
      this.later.value = last.later ?? false;
      this.endAsOf = last.cursor;
    });
    return cursor;
  }

  /** Have a page before the first item, or behind the last. */
  add(page: ConversationPage, at: End): void {
    batch(() => {
      const isNewer = page.cursor > this.cursor;
      const known = new Set(page.items.map((each) => each.id).filter((id) => this.items.has(id)));
      // An item that was said again stands behind all others: where it is depends on who knows better.
      const items = isNewer ? page.items : page.items.filter((each) => !known.has(each.id));
      const rest = isNewer && known.size ? this.ids.peek().filter((id) => !known.has(id)) : this.ids.peek();
      const added = items.map((each) => each.id);
      this.keep({ ...page, items });
      if (at === "start") this.earlier.value = page.earlier ?? false;
      else {
        this.later.value = page.later ?? false;
        this.endAsOf = page.cursor;
      }
      this.ids.value = at === "start" ? [...added, ...rest] : [...rest, ...added];
      this.applyAgain(page.cursor, new Set(added), at === "end");
      this.ids.value = this.trimmed([...this.ids.peek()], at === "start" ? "end" : "start");
    });
  }

  /** Have an item as it is now. */
  refresh(page: ConversationPage): void {
    batch(() => {
      this.keep(page);
      this.applyAgain(page.cursor, new Set(page.items.map((each) => each.id)), false);
    });
  }

  /** Apply what the stream brought; where it gets too much, the other end than the one that is looked at gives way. */
  apply(changes: readonly Changes[], looking: End): void {
    batch(() => {
      const [order, changed] = this.ordering();
      for (const each of changes) {
        if (this.reads) this.log.push(each);
        this.applyOne(each, order, null);
        this.cursor = each.to;
      }
      const ids = changed();
      if (ids) this.ids.value = this.trimmed(ids, looking === "end" ? "start" : "end");
      for (const [id, asOf] of this.newer) if (asOf <= this.cursor) this.newer.delete(id);
    });
  }

  /** Apply to what a page brought what came while it was on its way; behind the end, new items too. */
  private applyAgain(asOf: number, brought: Set<string>, isEnd: boolean): void {
    const [order, changed] = this.ordering();
    for (const each of this.log) {
      if (each.to <= asOf) continue;
      for (const { id, item } of isEnd ? each.patches : []) if (item && !this.items.has(id)) brought.add(id);
      this.applyOne(each, order, brought);
    }
    const ids = changed();
    if (ids) this.ids.value = ids;
    for (const id of brought) if (asOf <= this.cursor) this.newer.delete(id);
  }

  private ordering(): [order: Order, changed: () => string[] | null] {
    let ids: string[] | null = null;
    return [() => (ids ??= [...this.ids.peek()]), () => ids];
  }

  private keep(page: ConversationPage): void {
    for (const item of page.items) {
      const known = this.items.get(item.id);
      if (known) known.value = item;
      else this.items.set(item.id, signal(item));
      this.newer.set(item.id, page.cursor);
      this.stale.delete(item.id);
    }
  }

  /** `only`: those that a page has brought; the others had this already. */
  private applyOne(changes: Changes, order: Order, only: ReadonlySet<string> | null): void {
    for (const patch of changes.patches) {
      if (!only || only.has(patch.id)) this.patch(patch, changes, order, only !== null);
    }
    if (changes.unfinished) this.unfinished = new Set(changes.unfinished);
    if (!this.unfinished || changes.to === changes.from) return;
    this.dropUnfinished(this.unfinished, changes.to, order, only);
    this.unfinished = null;
  }

  private patch(patch: Patch, changes: Changes, order: Order, isAgain: boolean): void {
    const { id } = patch;
    const asOf = this.newer.get(id) ?? -1;
    const isPart = changes.to === changes.from;
    if (!isPart && this.items.has(id) && changes.to <= asOf) return;
    // It is as of a cursor that is not known yet. The next changes begin there, whatever the page was.
    if (isPart) this.newer.delete(id);
    if (patch.removed && this.items.has(id)) this.takeOut(id, order);
    if (patch.item) this.have(patch.item, changes, order, isAgain);
    const item = this.items.get(id);
    if (!item || !(patch.set || patch.append)) return;
    const next = { ...item.peek(), ...patch.set } as Item & { text?: string };
    const isWhole = patch.set !== undefined && "text" in patch.set;
    if (isWhole) this.stale.delete(id);
    else if (patch.append && !isPart && changes.from < asOf) this.stale.add(id);
    if (patch.append && !this.stale.has(id)) next.text = (next.text ?? "") + patch.append;
    item.value = next;
  }

  private have(item: Item, changes: Changes, order: Order, isAgain: boolean): void {
    this.stale.delete(item.id);
    const known = this.items.get(item.id);
    if (known) {
      known.value = item;
      return;
    }
    if (!isAgain) this.arrivals.value += 1;
    // The window ends before the conversation does: it is read when somebody gets there.
    if (this.later.peek()) return;
    // The page that has the end is newer: it is gone again, or else it would be known.
    if (changes.to <= this.endAsOf && changes.to > changes.from) return;
    this.items.set(item.id, signal(item));
    order().push(item.id);
  }

  /** What the reader has as being written and the server does not is gone. */
  private dropUnfinished(unfinished: ReadonlySet<string>, asOf: number, order: Order, only: ReadonlySet<string> | null): void {
    for (const id of [...order()]) {
      const item = this.items.get(id)?.peek();
      const isWriting = item && "state" in item && (item.state === "streaming" || item.state === "writing");
      if (!isWriting || unfinished.has(id) || (only && !only.has(id)) || (this.newer.get(id) ?? -1) >= asOf) continue;
      this.takeOut(id, order);
    }
  }

  private takeOut(id: string, order: Order): void {
    this.forget(id);
    const ids = order();
    const at = ids.lastIndexOf(id);
    if (at >= 0) ids.splice(at, 1);
  }

  private forget(id: string): void {
    this.items.delete(id);
    this.newer.delete(id);
    this.stale.delete(id);
  }

  private trimmed(ids: string[], from: End): string[] {
    if (ids.length <= MOST) return ids;
    const kept = from === "end" ? ids.slice(0, MOST) : ids.slice(-MOST);
    const left = from === "end" ? ids.slice(MOST) : ids.slice(0, -MOST);
    for (const id of left) this.forget(id);
    if (from === "end") this.later.value = true;
    else this.earlier.value = true;
    return kept;
  }
}

/** A frame of the stream, behind the cursor that the one before it had. */
export function changesOf(frame: Patches, from: number): Changes {
  return { from, to: Math.max(from, frame.cursor), patches: frame.patches, unfinished: frame.unfinished ?? null };
}
