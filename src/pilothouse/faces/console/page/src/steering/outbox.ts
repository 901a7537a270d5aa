/**
 * Messages on their way to the server, one after the other.
 *
 * Each is kept until the server has it or has said no, and goes again under its key after a reload: the
 * server takes a key once. What was refused comes back to the field, and so does what has waited for long.
 */

import { part, post, Refusal } from "../api/http";
import type { Said, Say } from "../api/types";
import { forget, keep, readKept } from "../state/kept";
import { forgetLarge, keepLarge, readLarge } from "../state/large";
import { randomId } from "../ui/ids";
import { toast, toastError } from "../ui/toasts";
import { giveBack } from "./drafts";
import { noteSaid } from "./history";
import { partsOf, type Content } from "./images";
import { refreshStatus } from "./session-status";

export type Priority = NonNullable<Say["priority"]>;

export interface Message {
  content: Content;
  priority: Priority | null;
}

interface Held extends Message {
  key: string;
}

/** As it is kept: images are too large for it, and stand elsewhere with the text. */
interface Kept {
  key: string;
  at: number;
  priority: Priority | null;
  text: string;
  hasImages: boolean;
}

const OUTBOX = "pilothouse.outbox.";
/** What has waited for longer is sent by nobody but its author. */
const GOES_AGAIN_MS = 5 * 60_000;
/** The same words later than this are another message. */
const SAME_MS = 60_000;
const chains = new Map<string, Promise<void>>();
/** What this page sends or holds itself. */
const inHand = new Set<string>();
/** The keys of messages that may have arrived, by what they say. */
const uncertain = new Map<string, { key: string; at: number }>();

/** The page is being left, which ends its requests: what becomes of them is for the next one to find out. */
let isLeaving = false;
addEventListener("pagehide", () => (isLeaving = true));
addEventListener("pageshow", () => (isLeaving = false));

export function sendMessage(id: string, message: Message): void {
  release(id, hold(id, message));
}

/** Keep a message that is to be sent soon. */
export function hold(id: string, message: Message): Held {
  const before = uncertain.get(shapeOf(id, message));
  const key = before && Date.now() - before.at < SAME_MS ? before.key : randomId();
  const { content, priority } = message;
  const hasImages = typeof content !== "string";
  if (hasImages) void keepLarge(OUTBOX + key, content);
  inHand.add(key);
  keep(OUTBOX + id, [...kept(id), { key, at: Date.now(), priority, text: partsOf(content).text, hasImages }]);
  return { ...message, key };
}

/** Send what was kept, after all that was sent before. */
export function release(id: string, held: Held): void {
  const before = chains.get(id) ?? Promise.resolve();
  chains.set(id, before.then(() => send(id, held)).catch(toastError));
}

/** What was on its way when the page was left goes again. */
export async function sendLeftovers(id: string): Promise<void> {
  for (const { key, at, priority, text, hasImages } of kept(id)) {
    if (inHand.has(key)) continue;
    inHand.add(key);
    const found = hasImages ? await readLarge<Content>(OUTBOX + key) : text;
    if (found !== undefined && Date.now() - at < GOES_AGAIN_MS) {
      release(id, { key, priority, content: found });
      continue;
    }
    giveBack(id, found ?? text);
    if (found === undefined) toast("The images of a message were lost with the page. Its text is back in the field.", true);
    drop(id, key);
  }
}

async function send(id: string, held: Held): Promise<void> {
  const shape = shapeOf(id, held);
  try {
    const say: Say = { content: held.content, priority: held.priority, key: held.key };
    await post<Said>(`/api/sessions/${part(id)}/messages`, say);
    uncertain.delete(shape);
    noteSaid(id, partsOf(held.content).text);
  } catch (error) {
    if (isLeaving) return;
    // Without an answer it may have arrived: the same words again are the same message.
    if (error instanceof Refusal) uncertain.delete(shape);
    else uncertain.set(shape, { key: held.key, at: Date.now() });
    giveBack(id, held.content);
    toastError(error);
  }
  drop(id, held.key);
  refreshStatus(id);
}

function drop(id: string, key: string): void {
  inHand.delete(key);
  const rest = kept(id).filter((each) => each.key !== key);
  if (rest.length) keep(OUTBOX + id, rest);
  else forget(OUTBOX + id);
  void forgetLarge(OUTBOX + key);
}

function kept(id: string): Kept[] {
  return readKept<Kept[]>(OUTBOX + id, []);
}

function shapeOf(id: string, message: Message): string {
  return JSON.stringify([id, message.priority, message.content]);
}
