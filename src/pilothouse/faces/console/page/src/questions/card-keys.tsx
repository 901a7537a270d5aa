/** The keys and clicks of a card: one that is held, or comes just as the card came, does nothing. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { useKeys, type Key } from "../ui/keys";
import { isConverting } from "../ui/typing";

/** Nobody has read a card that came this short a time ago: the key was meant for the one before. */
const UNREAD_MS = 300;
/** So long after an answer a click is the second one of a double click. */
const DOUBLE_MS = 400;

let isHeld = false;
addEventListener("keydown", (event) => (isHeld = event.repeat), true);
addEventListener("keyup", () => (isHeld = false), true);

let answeredAt = -Infinity;

export function noteAnswer(): void {
  answeredAt = performance.now();
}

/** For a card: lets no click through that was meant for the one before. */
export function useMeantClicks(): (event: MouseEvent) => void {
  const since = useRef(performance.now());
  return (event) => {
    // The page's own, as of the arrows among options, is meant.
    if (!event.isTrusted) return;
    const now = performance.now();
    const isHeldKey = isHeld && event.detail === 0;
    if (!isHeldKey && now - since.current > UNREAD_MS && now - answeredAt > DOUBLE_MS) return;
    event.preventDefault();
    event.stopPropagation();
  };
}

/** Nothing that has a use for Enter or Tab has the focus. */
export const focusIsFree = signal(true);

function look(): void {
  const at = document.activeElement;
  focusIsFree.value = !at || at === document.body || at.classList.contains("question-card");
}
addEventListener("focusin", look);
addEventListener("focusout", () => queueMicrotask(look));

export function CardKeys(props: { name: string; keys: readonly Key[] }) {
  const since = useRef(performance.now());
  useEffect(look, []);
  const isMeant = () => !isHeld && performance.now() - since.current > UNREAD_MS && !isElsewhere();
  useKeys(
    props.name,
    props.keys.map((key) => ({ ...key, act: () => (key.press === "Escape" || isMeant()) && key.act() })),
  );
  return null;
}

/** Keys that do nothing while something is open over the page, or a person is at the list of sessions. */
export function onPage(keys: readonly Key[]): Key[] {
  return keys.map((key) => ({ ...key, act: () => !isElsewhere() && key.act() }));
}

function isElsewhere(): boolean {
  return (
    document.querySelector("dialog[open], :popover-open") !== null || document.activeElement?.closest(".side") != null
  );
}

/** In a field: Escape leaves it, and is not heard by anything else. */
export function leaveOnEscape(leave: () => void): (event: KeyboardEvent) => void {
  return (event) => {
    if (event.key !== "Escape" || isConverting(event)) return;
    event.preventDefault();
    event.stopPropagation();
    leave();
  };
}

/** So long after an answer the next card is still a consequence of it. */
const FOLLOWS_MS = 1000;
let passedOnAt = -Infinity;

/** The next card that becomes current takes the focus if the last one had it: a keyboard stays where the work is. */
export function passFocusOn(): void {
  if (isAtCards()) passedOnAt = performance.now();
}

export function takeFocus(): boolean {
  const isWanted = performance.now() - passedOnAt < FOLLOWS_MS && isAtCards();
  passedOnAt = -Infinity;
  return isWanted;
}

/** What has the focus is about to go: its card has it then. */
export function focusCard(): void {
  document.activeElement?.closest<HTMLElement>(".question-card")?.focus({ preventScroll: true });
}

function isAtCards(): boolean {
  const at = document.activeElement;
  return !at || at === document.body || at.closest(".question-card, .question-line") !== null;
}
