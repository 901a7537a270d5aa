/** What the server says of a session: read when somebody looks at it, and again when its row changes. */

import { computed, effect, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { get, isPassing, part } from "../api/http";
import type { Status } from "../api/types";
import { rowSignal } from "../state/sessions";
import { toastError } from "../ui/toasts";

/** A session at work changes its row often; its status is read so often at most. */
const PAUSE_MS = 1000;

interface Kept {
  status: Signal<Status | null>;
  /** Its directory, and the folder that stands for it in a simulation. */
  places: ReadonlySignal<string>;
  readAt: number;
  timer: number;
  /** Something happened while it was being read: what comes may be from before. */
  isStale: boolean;
  /** Somebody has just done something to it: a refusal is news to them. */
  isAsked: boolean;
}

const kept = new Map<string, Kept>();

/** The status of a session; null until it was read. */
export function statusOf(id: string): Signal<Status | null> {
  return keptOf(id).status;
}

/** The directories that paths of a session are shown without, one a line; told only when they change. */
export function placesOf(id: string): ReadonlySignal<string> {
  return keptOf(id).places;
}

/** Read the status again: at once, or as soon as the last reading is long enough ago. */
export function refreshStatus(id: string, isAsked = false): void {
  const own = keptOf(id);
  own.isAsked ||= isAsked;
  if (own.timer) {
    own.isStale = true;
    return;
  }
  own.timer = window.setTimeout(() => void read(id, own), Math.max(0, own.readAt + PAUSE_MS - Date.now()));
}

/** Keep the status current as long as somebody shows it; returns how to leave. */
export function followStatus(id: string): () => void {
  const row = rowSignal(id);
  return effect(() => {
    void row.value;
    refreshStatus(id);
  });
}

function keptOf(id: string): Kept {
  let own = kept.get(id);
  if (!own) {
    const status = signal<Status | null>(null);
    const places = computed(() => [status.value?.scratch, status.value?.cwd].filter(Boolean).join("\n"));
    kept.set(id, (own = { status, places, readAt: 0, timer: 0, isStale: false, isAsked: false }));
  }
  return own;
}

async function read(id: string, own: Kept): Promise<void> {
  const { isAsked } = own;
  own.readAt = Date.now();
  own.isStale = own.isAsked = false;
  try {
    own.status.value = await get<Status>(`/api/sessions/${part(id)}`);
  } catch (error) {
    // That the server is away stands in the head of the page, and that a session is not there in the list.
    if (isAsked && own.status.peek() && !isPassing(error)) toastError(error);
  } finally {
    own.timer = 0;
    if (own.isStale) refreshStatus(id);
  }
}
