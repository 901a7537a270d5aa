/**
 * How the items of a conversation nest: those of a subagent stand inside the call that started it.
 *
 * Only what gains or loses an item is told so, and which cards are open is kept here, so that it
 * is still so when a card leaves the screen and comes back.
 */

import { effect, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Conversation } from "../state/conversation";

const NONE: readonly string[] = [];
const outlines = new WeakMap<Conversation, Outline>();

export function outlineOf(conversation: Conversation): Outline {
  const known = outlines.get(conversation);
  if (known) return known;
  const made = new Outline(conversation);
  outlines.set(conversation, made);
  return made;
}

export class Outline {
  /** The items that stand in no other, in their order. */
  readonly top: ReadonlySignal<readonly string[]>;
  /** The item that is marked: the one of the address, or that a search found. */
  readonly marked = signal<string | null>(null);

  private readonly children = new Map<string, Signal<readonly string[]>>();
  private readonly wholes = new Map<string, Signal<boolean>>();
  private readonly openings = new Map<string, Signal<boolean | null>>();

  constructor(private readonly conversation: Conversation) {
    const top = signal<readonly string[]>(NONE);
    this.top = top;
    // It lives as long as the conversation does, which is what it reads.
    effect(() => this.sort(conversation.ids.value, top));
  }

  /** The items inside a call. */
  childrenOf(id: string): ReadonlySignal<readonly string[]> {
    return this.child(id);
  }

  /** Whether somebody opened or closed a card; null: nobody did. */
  opening(id: string): Signal<boolean | null> {
    let known = this.openings.get(id);
    if (!known) this.openings.set(id, (known = signal<boolean | null>(null)));
    return known;
  }

  /** Open an item's card, and every one that it stands in. */
  reveal(id: string): void {
    this.opening(id).value = true;
    for (let parent = this.parentOf(id); parent; parent = this.parentOf(parent)) {
      this.opening(parent).value = true;
      this.isWhole(parent).value = true;
    }
  }

  /** Whether all items inside a call are shown, or the newest of them. */
  isWhole(id: string): Signal<boolean> {
    let known = this.wholes.get(id);
    if (!known) this.wholes.set(id, (known = signal(false)));
    return known;
  }

  /** The call that an item stands in, where that is in the window. */
  private parentOf(id: string): string | null {
    const agent = this.conversation.item(id)?.peek().agent;
    return agent && agent !== id && this.conversation.item(agent) ? agent : null;
  }

  private sort(ids: readonly string[], top: Signal<readonly string[]>): void {
    const outer: string[] = [];
    const inner = new Map<string, string[]>();
    for (const id of ids) {
      const parent = this.parentOf(id);
      if (!parent) outer.push(id);
      else if (inner.has(parent)) inner.get(parent)!.push(id);
      else inner.set(parent, [id]);
    }
    give(top, outer);
    for (const [id, known] of this.children) if (!inner.has(id)) give(known, NONE);
    for (const [id, own] of inner) give(this.child(id), own);
  }

  private child(id: string): Signal<readonly string[]> {
    let known = this.children.get(id);
    if (!known) this.children.set(id, (known = signal(NONE)));
    return known;
  }
}

/** Tell of a list only where it is another. */
function give(to: Signal<readonly string[]>, ids: readonly string[]): void {
  const known = to.peek();
  if (known.length === ids.length && known.every((id, at) => id === ids[at])) return;
  to.value = ids;
}
