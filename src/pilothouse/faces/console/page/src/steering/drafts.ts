/** What was typed and not sent, by what it is for: its text and its images stay in this browser until the server has them. */

import { signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { kept } from "../state/kept";
import { forgetLarge, keepLarge, onLarge, readLarge } from "../state/large";
import { toast } from "../ui/toasts";
import { MOST_PICTURES, partsOf, type Content, type Picture } from "./images";

const DRAFT = "pilothouse.draft.";
const PICTURES = "pilothouse.pictures.";
const pictures = new Map<string, Signal<readonly Picture[]>>();
const readings = new Map<string, Signal<number>>();

export function draftOf(name: string): ReadonlySignal<string> {
  return kept(DRAFT + name, "").now;
}

export function writeDraft(name: string, text: string): void {
  kept(DRAFT + name, "").write(text);
}

/** The images of a draft. Those of an earlier visit come a moment later. */
export function picturesOf(name: string): Signal<readonly Picture[]> {
  const known = pictures.get(name);
  if (known) return known;
  const made = signal<readonly Picture[]>([]);
  pictures.set(name, made);
  void readLarge<readonly Picture[]>(PICTURES + name).then((found) => {
    if (found?.length) setPictures(name, [...found, ...made.peek()]);
  });
  return made;
}

export function setPictures(name: string, next: readonly Picture[]): void {
  if (next.length > MOST_PICTURES) toast(`A message takes ${MOST_PICTURES} images at most.`, true);
  const taken = next.slice(0, MOST_PICTURES);
  picturesOf(name).value = taken;
  void (taken.length ? keepLarge(PICTURES + name, taken) : forgetLarge(PICTURES + name));
}

/** Whatever the draft was for, it is over. */
export function forgetPictures(name: string): void {
  pictures.delete(name);
  void forgetLarge(PICTURES + name);
}

/** How many images of a draft are still being read. */
export function readingsOf(name: string): Signal<number> {
  let count = readings.get(name);
  if (!count) readings.set(name, (count = signal(0)));
  return count;
}

// What another tab has sent, this one must not send again.
onLarge((name) => {
  const own = name.startsWith(PICTURES) ? pictures.get(name.slice(PICTURES.length)) : undefined;
  if (own) void readLarge<readonly Picture[]>(name).then((found) => (own.value = found ?? []));
});

/** A message comes back, before what was typed meanwhile. */
export function giveBack(name: string, content: Content): void {
  const { text, pictures: own } = partsOf(content);
  const typed = draftOf(name).peek();
  writeDraft(name, typed.trim() && text ? `${text}\n\n${typed}` : text || typed);
  if (own.length) setPictures(name, [...own, ...picturesOf(name).peek()]);
}
