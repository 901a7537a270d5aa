/** Images from the clipboard as the content blocks that a message takes. */

import { pastedFiles } from "../steering/images";

export interface ImageBlock {
  type: "image";
  source: { type: "base64"; media_type: string; data: string };
}

/** What the model's API reads. */
const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** The API refuses larger ones. */
const LARGEST = 5 * 1024 * 1024;

/** The images in what is pasted, and why some are none; a paste without files is left to the browser. */
export async function imagesFrom(event: ClipboardEvent): Promise<{ images: ImageBlock[]; refused: string[] }> {
  const files = pastedFiles(event);
  if (files.length) event.preventDefault();
  const refused = files.flatMap(whyNot);
  const images = await Promise.all(files.filter((file) => !whyNot(file).length).map(blockOf));
  return { images, refused };
}

/** The picture for an `img`: the same bytes, nothing from the network. */
export function addressOf(image: ImageBlock): string {
  return `data:${image.source.media_type};base64,${image.source.data}`;
}

function whyNot(file: File): string[] {
  if (!TYPES.includes(file.type)) return [`${file.name || "What was pasted"} is not a PNG, JPEG, GIF or WebP image`];
  return file.size > LARGEST ? [`${file.name || "The image"} is larger than 5 MB`] : [];
}

function blockOf(file: File): Promise<ImageBlock> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(reader.error ?? new Error("The image cannot be read"));
    reader.onload = () => {
      const data = String(reader.result).replace(/^[^,]*,/, "");
      resolve({ type: "image", source: { type: "base64", media_type: file.type, data } });
    };
    reader.readAsDataURL(file);
  });
}
