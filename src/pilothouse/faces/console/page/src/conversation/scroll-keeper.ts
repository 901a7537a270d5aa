/**
 * Where one reads in a list that grows at both ends: at the end it stays at the end, anywhere else
 * what is on the screen stays where it is.
 */

import { effect, signal } from "@preact/signals";
import type { Conversation } from "../state/conversation";

/** So near to the end counts as being there. */
const NEAR_END_PX = 48;
/** What is so far away is read before one gets there. */
const AHEAD_PX = 1600;
/** Items that were never on the screen have a guessed height: one place is looked for again for so many frames. */
const SETTLING_FRAMES = 6;

export class ScrollKeeper {
  readonly atEnd = signal(true);
  /** How many items had come when one left the end. */
  readonly seen = signal(0);

  private anchor: { element: Element; top: number } | null = null;
  private isHeld = false;
  private settling = 0;
  private readonly sizes: ResizeObserver;
  private readonly leave: () => void;
  private readonly leaveReturns: () => void;

  constructor(
    private readonly scroller: HTMLElement,
    private readonly list: HTMLElement,
    private readonly conversation: Conversation,
  ) {
    this.sizes = new ResizeObserver(() => this.stick());
    this.sizes.observe(list);
    this.sizes.observe(scroller);
    scroller.addEventListener("scroll", this.moved, { passive: true });
    list.addEventListener("click", this.hold, { capture: true });
    // Runs before the page is drawn with the new items: only then is what was on the screen still where it was.
    this.leave = effect(() => {
      void conversation.ids.value;
      this.remember();
    });
    this.leaveReturns = conversation.returns.subscribe(() => this.readAhead());
  }

  close(): void {
    this.leave();
    this.leaveReturns();
    this.sizes.disconnect();
    this.scroller.removeEventListener("scroll", this.moved);
    this.list.removeEventListener("click", this.hold, { capture: true });
    cancelAnimationFrame(this.settling);
  }

  /** The list was drawn: put what was on the screen back to its place. */
  drawn(): void {
    if (this.atEnd.peek()) this.stick();
    else if (this.anchor?.element.isConnected) {
      const moved = this.anchor.element.getBoundingClientRect().top - this.anchor.top;
      if (Math.abs(moved) > 0.5) this.scroller.scrollTop += moved;
    }
    this.anchor = null;
    this.readAhead();
  }

  async toEnd(): Promise<void> {
    if (this.conversation.later.peek()) await this.conversation.toEnd();
    this.look(true);
    this.stick();
  }

  /** Bring an element to the upper part of the screen. */
  toElement(find: () => HTMLElement | null): void {
    this.look(false);
    this.seen.value = this.conversation.arrivals.peek();
    cancelAnimationFrame(this.settling);
    this.settle(find, SETTLING_FRAMES);
  }

  private settle(find: () => HTMLElement | null, frames: number): void {
    const element = find();
    if (element) {
      const wanted = this.scroller.getBoundingClientRect().top + this.scroller.clientHeight / 5;
      this.scroller.scrollTop += element.getBoundingClientRect().top - wanted;
      if (frames === SETTLING_FRAMES) element.focus({ preventScroll: true });
    }
    if (frames > 0) this.settling = requestAnimationFrame(() => this.settle(find, frames - 1));
    else this.moved();
  }

  private look(isAtEnd: boolean): void {
    this.atEnd.value = isAtEnd;
    this.conversation.isAtEnd = isAtEnd;
  }

  private stick(): void {
    if (this.atEnd.peek() && !this.isHeld) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  private readonly moved = (): void => {
    const isAtEnd = this.below() < NEAR_END_PX && !this.conversation.later.peek();
    if (isAtEnd !== this.atEnd.peek()) {
      this.seen.value = this.conversation.arrivals.peek();
      this.look(isAtEnd);
    }
    this.readAhead();
  };

  /** Opening a card at the end must not carry its head off the screen. */
  private readonly hold = (): void => {
    this.isHeld = true;
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        this.isHeld = false;
        this.moved();
      }),
    );
  };

  private readAhead(): void {
    // Both do nothing where there is nothing, or while a page is on its way.
    if (this.scroller.scrollTop < AHEAD_PX) void this.conversation.loadEarlier().catch(() => undefined);
    if (this.below() < AHEAD_PX) void this.conversation.loadLater().catch(() => undefined);
  }

  private below(): number {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
  }

  private remember(): void {
    const element = this.atEnd.peek() ? null : this.firstVisible();
    this.anchor = element && { element, top: element.getBoundingClientRect().top };
  }

  /** The first item that reaches into the screen. They stand in order, so half of them are left out at each look. */
  private firstVisible(): Element | null {
    const items = this.list.children;
    const edge = this.scroller.getBoundingClientRect().top;
    let low = 0;
    let high = items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (items[middle]!.getBoundingClientRect().bottom > edge) high = middle;
      else low = middle + 1;
    }
    return items[low] ?? null;
  }
}
