/** One table of keys: what is pressed, what it does, and the words that the help sheet has for it. */

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { keep, readKept } from "../state/kept";
import { isConverting } from "./typing";

export interface Key {
  /** As `KeyboardEvent.key`, with `ctrl+`, `shift+` or `alt+` before it; ctrl is also the Mac's command key. */
  press: string;
  does: string;
  act: () => void;
  /** It acts although a text is being typed. */
  inFields?: boolean;
}

export interface KeyGroup {
  name: string;
  keys: readonly Key[];
}

const SINGLE = "pilothouse.single-keys";

/** Whether a letter, digit or sign alone does something: speech input and shaking hands press such keys unmeant. */
export const singleKeys = signal(readKept(SINGLE, true));

export function setSingleKeys(areOn: boolean): void {
  singleKeys.value = areOn;
  keep(SINGLE, areOn);
}

/** The groups that count at the moment; what was added last is asked first. */
export const keyGroups = signal<readonly KeyGroup[]>([]);

/** Have these keys as long as the component is there. */
export function useKeys(name: string, keys: readonly Key[]): void {
  const latest = useRef(keys);
  latest.current = keys;
  const shape = keys.map((key) => `${key.press} ${key.does}`).join("|");
  // Before the component is painted: who sees it may press its keys.
  useLayoutEffect(() => {
    const group: KeyGroup = {
      name,
      keys: keys.map((key) => ({ ...key, act: () => latest.current.find((each) => isSame(each, key))?.act() })),
    };
    keyGroups.value = [...keyGroups.peek(), group];
    return () => (keyGroups.value = keyGroups.peek().filter((each) => each !== group));
  }, [name, shape]);
}

/** Who holds on to a key, as the palette does, gets what it does now, wherever it stands among the others. */
function isSame(one: Key, other: Key): boolean {
  return one.press === other.press && one.does === other.does;
}

/** So long after a key in a field that went from under the hands, whoever types has not looked up yet. */
const TYPED_MS = 1500;

const WATCH_MS = 250;

let watching = 0;
let typed: { field: HTMLElement; event: Event; at: number } | null = null;

export function listenToKeys(): void {
  addEventListener("keydown", noteTyping, true);
  addEventListener("input", noteTyping, true);
  addEventListener("pointerdown", (event) => typed?.field !== event.target && (typed = null), true);
  addEventListener("keydown", (event) => {
    // A key in a window over the page is not for what is behind it.
    if (event.defaultPrevented || isConverting(event) || document.querySelector("dialog:modal")) return;
    const pressed = nameOf(event);
    // One that is held down acts once.
    if (pressed.length === 1 && (event.repeat || !singleKeys.peek())) return;
    const isTyping = isWithout(event) && (inField(event.target) || isForLostField(event));
    for (const group of [...keyGroups.peek()].reverse()) {
      const key = group.keys.find((each) => each.press === pressed && (!isTyping || each.inFields));
      if (!key) continue;
      event.preventDefault();
      key.act();
      return;
    }
  });
}

function noteTyping(event: Event): void {
  if (!inField(event.target)) return;
  typed = { field: event.target as HTMLElement, event, at: event.timeStamp };
  watching ||= window.setInterval(watchField, WATCH_MS);
}

/** Who is in a field and thinks for a while is about to type there, too. */
function watchField(): void {
  if (typed && typed.field === document.activeElement && isUsable(typed.field)) {
    typed.at = performance.now();
    return;
  }
  clearInterval(watching);
  watching = 0;
}

/**
 * Whether a key that comes now was meant for a field which is gone: a question came or was settled elsewhere, and
 * took it away while somebody typed. Each such key makes it last longer.
 */
export function isForLostField(event: Event): boolean {
  if (!typed) return false;
  const isRecent = event.timeStamp - typed.at < TYPED_MS;
  if (!isRecent || isUsable(typed.field) || wasLeft(typed.event)) {
    typed = null;
    return false;
  }
  typed.at = event.timeStamp;
  return true;
}

function isUsable(field: HTMLElement): boolean {
  return field.isConnected && !field.matches(":disabled") && field.checkVisibility();
}

/** Whether the last key in a field was the one to leave it with: something took it, or it is made for that. */
function wasLeft(event: Event): boolean {
  if (!(event instanceof KeyboardEvent)) return false;
  const isEnd = event.key === "Enter" && event.target instanceof HTMLInputElement;
  return isEnd || event.defaultPrevented || !isWithout(event) || event.key === "Escape" || event.key === "Tab";
}

const SIGN = /^[^\p{L}\p{N}\s]$/u;

/** Without ctrl and the Mac's command key. Some keyboards have a sign behind AltGr only, which Windows tells as ctrl and alt. */
function isWithout(event: KeyboardEvent): boolean {
  const isAltGr = SIGN.test(event.key) && event.getModifierState("AltGraph");
  return isAltGr || (!event.ctrlKey && !event.metaKey);
}

function nameOf(event: KeyboardEvent): string {
  // Some have it behind the Mac's option key: what counts is the sign.
  const held = [isWithout(event) ? "" : "ctrl+", event.altKey && !SIGN.test(event.key) ? "alt+" : ""].join("");
  // A shifted letter or sign is a key of its own (`?`); only named keys say that shift is held.
  return held + (event.shiftKey && event.key.length > 1 ? "shift+" : "") + event.key;
}

const NO_TEXT = /^(button|checkbox|color|file|image|radio|range|reset|submit)$/;

export function inField(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return !NO_TEXT.test(target.type);
  return target instanceof HTMLElement && (target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName));
}
