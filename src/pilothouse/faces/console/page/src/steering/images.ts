/** Images that go with a message: read, made smaller where they are too large, and told as content blocks. */

import type { Say } from "../api/types";
import { randomId } from "../ui/ids";

export interface Picture {
  id: string;
  name: string;
  mediaType: string;
  /** In base64. */
  data: string;
}

/** What a message says: a text, or blocks of text and images. */
export type Content = Say["content"];

const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** The API takes 5 MB of base64 an image. */
const MOST_BYTES = 3_750_000;
const LONGEST_EDGE = 2000;
export const MOST_PICTURES = 10;

/** Read a file as an image; throws in words what it is not. */
export async function readPicture(file: File): Promise<Picture> {
  if (!KINDS.includes(file.type)) throw new Error(`${file.name || "This file"} is not a PNG, JPEG, GIF or WebP image`);
  const blob = file.size > MOST_BYTES ? await smaller(file) : file;
  if (blob.size > MOST_BYTES) throw new Error(`${file.name || "This image"} is larger than 3.7 MB`);
  return { id: randomId(), name: file.name || "image", mediaType: blob.type, data: await base64(blob) };
}

export function pictureUrl(picture: Picture): string {
  return `data:${picture.mediaType};base64,${picture.data}`;
}

/** A text alone, or the images and then the text. */
export function contentOf(text: string, pictures: readonly Picture[]): string | Record<string, unknown>[] {
  if (!pictures.length) return text;
  const blocks = blocksOf(pictures);
  return text ? [...blocks, { type: "text", text }] : blocks;
}

export function blocksOf(pictures: readonly Picture[]): Record<string, unknown>[] {
  return pictures.map((each) => ({
    type: "image",
    source: { type: "base64", media_type: each.mediaType, data: each.data },
  }));
}

/** The text and the images of a message. */
export function partsOf(content: Content): { text: string; pictures: Picture[] } {
  if (typeof content === "string") return { text: content, pictures: [] };
  const texts = content.map((each) => (typeof each.text === "string" ? each.text : ""));
  return { text: texts.filter(Boolean).join("\n"), pictures: content.flatMap(pictureOf) };
}

function pictureOf(block: Record<string, unknown>): Picture[] {
  const source = block.source as { type?: string; media_type?: string; data?: string } | undefined;
  if (block.type !== "image" || !source?.data || !source.media_type) return [];
  return [{ id: randomId(), name: "image", mediaType: source.media_type, data: source.data }];
}

/** The files of a paste. Spreadsheets and text programs put a picture beside the text, and the text is meant. */
export function pastedFiles(event: ClipboardEvent): File[] {
  const given = event.clipboardData;
  return given?.getData("text/plain") ? [] : [...(given?.files ?? [])];
}

async function smaller(file: File): Promise<Blob> {
  const image = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST_EDGE / Math.max(image.width, image.height));
  const canvas = new OffscreenCanvas(Math.round(image.width * scale), Math.round(image.height * scale));
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  image.close();
  return canvas.convertToBlob({ type: "image/jpeg", quality: 0.9 });
}

function base64(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",", 2)[1] ?? "");
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
