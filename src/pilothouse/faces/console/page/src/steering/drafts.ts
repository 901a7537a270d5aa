/** What was typed and not sent, by what it is for: its text and its images stay in this browser until the server has them. */

import { signal, type Signal } from "@preact/signals";
import { forgetLarge, keepLarge, readLarge } from "../state/large";
import { toast } from "../ui/toasts";
import { MOST_PICTURES, partsOf, type Content, type Picture } from "./images";

const DRAFT = "pilothouse.draft.";
const PICTURES = "pilothouse.pictures.";
const drafts = new Map<string, Signal<string>>();
const pictures = new Map<string, Signal<readonly Picture[]>>();

export function draftOf(name: string): Signal<string> {
  let draft = drafts.get(name);
  if (!draft) drafts.set(name, (draft = signal(readText(name))));
  return draft;
}

export function writeDraft(name: string, text: string): void {
  draftOf(name).value = text;
  try {
    if (text) localStorage.setItem(DRAFT + name, text);
    else localStorage.removeItem(DRAFT + name);
  } catch {
    // The page still has it as long as it is open.
  }
}

/** The images of a draft. Those of an earlier visit come a moment later. */
export function picturesOf(name: string): Signal<readonly Picture[]> {
  const known = pictures.get(name);
  if (known) return known;
  const made = signal<readonly Picture[]>([]);
  pictures.set(name, made);
  void readLarge<readonly Picture[]>(PICTURES + name).then((kept) => {
    if (kept?.length) setPictures(name, [...kept, ...made.peek()]);
  });
  return made;
}

export function setPictures(name: string, next: readonly Picture[]): void {
  if (next.length > MOST_PICTURES) toast(`A message takes ${MOST_PICTURES} images at most.`, true);
  const taken = next.slice(0, MOST_PICTURES);
  picturesOf(name).value = taken;
  void (taken.length ? keepLarge(PICTURES + name, taken) : forgetLarge(PICTURES + name));
}

/** A message comes back, before what was typed meanwhile. */
export function giveBack(name: string, content: Content): void {
  const { text, pictures: own } = partsOf(content);
  const typed = draftOf(name).peek();
  writeDraft(name, typed.trim() && text ? `${text}\n\n${typed}` : text || typed);
  if (own.length) setPictures(name, [...own, ...picturesOf(name).peek()]);
}

function readText(name: string): string {
  try {
    return localStorage.getItem(DRAFT + name) ?? "";
  } catch {
    return "";
  }
}
