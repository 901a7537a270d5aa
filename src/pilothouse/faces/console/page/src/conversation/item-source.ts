/** The lines that an item was made of, and what stands only in them: the bytes of images, a file as it was. */

import { get, part } from "../api/http";
import type { DiffView, Hunk, ItemSource } from "../api/types";

export function sourceOf(sessionId: string, item: string): Promise<ItemSource> {
  return get<ItemSource>(`/api/sessions/${part(sessionId)}/conversation/source`, { item });
}

type Json = Record<string, unknown>;

export interface Picture {
  mediaType: string;
  data: string;
}

const SHOWN_TYPES = /^image\/(png|jpeg|gif|webp)$/;
const DEEPEST = 20;

/** The images in the lines, without those that stand in them twice. */
export function picturesIn(source: ItemSource): Picture[] {
  const found = new Map<string, Picture>();
  for (const each of everyObject(linesOf(source))) {
    const picture = each.type === "base64" ? pictureOf(each.media_type, each.data) : pictureOf(each.type, each.base64);
    if (picture) found.set(picture.data, picture);
  }
  return [...found.values()];
}

function pictureOf(type: unknown, data: unknown): Picture | null {
  if (typeof type !== "string" || typeof data !== "string" || !SHOWN_TYPES.test(type)) return null;
  return { mediaType: type, data };
}

/** The whole file with what changes in it; null where the lines do not have the file. */
export function wholeFileIn(source: ItemSource, view: DiffView): DiffView | null {
  for (const each of everyObject(linesOf(source))) {
    const { originalFile, structuredPatch } = each;
    if (typeof originalFile !== "string" || !Array.isArray(structuredPatch)) continue;
    return { ...view, hunks: [wholeHunk(originalFile, structuredPatch.map(hunkOf))], is_numbered: true, cut: 0 };
  }
  return null;
}

export function hunkOf(told: unknown): Hunk {
  const hunk = objectOf(told) ?? {};
  const lines = Array.isArray(hunk.lines) ? hunk.lines.map(String) : [];
  return { old_start: Number(hunk.oldStart) || 1, new_start: Number(hunk.newStart) || 1, lines };
}

/** One hunk that has every line of the file. */
function wholeHunk(original: string, hunks: readonly Hunk[]): Hunk {
  const before = original.replace(/\n$/, "").split("\n");
  const lines: string[] = [];
  let at = 0;
  for (const hunk of hunks) {
    const start = (hunk.old_start ?? 1) - 1;
    for (; at < start && at < before.length; at++) lines.push(` ${before[at]}`);
    lines.push(...(hunk.lines ?? []));
    at += (hunk.lines ?? []).filter((line) => line[0] === " " || line[0] === "-").length;
  }
  for (; at < before.length; at++) lines.push(` ${before[at]}`);
  return { old_start: 1, new_start: 1, lines };
}

export function linesOf(source: Pick<ItemSource, "entries" | "transcript">): Json[] {
  const every = [...(source.entries ?? []).map((entry) => entry.body), ...(source.transcript ?? [])];
  return every.map(objectOf).filter((line): line is Json => line !== null);
}

export function objectOf(value: unknown): Json | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

function* everyObject(value: unknown, depth = 0): Generator<Json> {
  if (typeof value !== "object" || value === null || depth > DEEPEST) return;
  if (!Array.isArray(value)) yield value as Json;
  for (const each of Object.values(value)) yield* everyObject(each, depth + 1);
}
