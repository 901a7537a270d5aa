/** The keys of the card that is current: one that is held, or pressed just as the card came, does nothing. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { useKeys, type Key } from "../ui/keys";

/** Nobody has read a card that came this short a time ago: the key was meant for the one before. */
const UNREAD_MS = 300;

let isHeld = false;
addEventListener("keydown", (event) => (isHeld = event.repeat), true);

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
    if (event.key !== "Escape" || event.isComposing) return;
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

function isAtCards(): boolean {
  const at = document.activeElement;
  return !at || at === document.body || at.closest(".question-card, .question-line") !== null;
}
