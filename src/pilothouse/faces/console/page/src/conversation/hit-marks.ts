/** Marks words on the page without touching its nodes: the browser draws the ranges. */

import { domId } from "./item-card";

const NAME = "found";
/** Nobody looks at more marks at once, and each costs. */
const MOST = 400;

export function markHits(words: string, items: readonly string[]): void {
  // An older browser marks the item only.
  if (!("highlights" in CSS)) return;
  const wanted = words.trim().toLowerCase();
  const ranges: Range[] = [];
  if (wanted) {
    for (const id of [...items].reverse()) {
      const element = document.getElementById(domId(id));
      if (element) addRanges(element, wanted, ranges);
      if (ranges.length >= MOST) break;
    }
  }
  CSS.highlights.set(NAME, new Highlight(...ranges));
}

export function unmarkHits(): void {
  if ("highlights" in CSS) CSS.highlights.delete(NAME);
}

function addRanges(element: Element, wanted: string, ranges: Range[]): void {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && ranges.length < MOST; node = walker.nextNode()) {
    const text = (node.nodeValue ?? "").toLowerCase();
    let at = text.indexOf(wanted);
    for (; at >= 0 && ranges.length < MOST; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, Math.min(at + wanted.length, node.nodeValue!.length));
      ranges.push(range);
    }
  }
}
