/** What a person wants to be told of besides the page itself: by kind of event, with a notification or a sound. */

import { signal } from "@preact/signals";
import { link } from "../routes";
import { keep, readKept } from "../state/kept";

export type Kind = "question" | "finished" | "failed";
export const KINDS: readonly [Kind, string][] = [
  ["question", "A question is asked"],
  ["finished", "A session is done"],
  ["failed", "A session fails"],
];

export interface Wanted {
  notify: boolean;
  sound: boolean;
}

const KEPT = "pilothouse.notices";
const NONE: Wanted = { notify: false, sound: false };
const LEADER = "pilothouse.leader";
const SEEN = "pilothouse.seen";

export const wanted = signal(readWanted());

/** Another tab of this browser has changed what is wanted. */
addEventListener("storage", (event) => event.key === KEPT && (wanted.value = readWanted()));

function readWanted(): Record<Kind, Wanted> {
  const kept = readKept<Partial<Record<Kind, Wanted>>>(KEPT, {});
  return { question: NONE, finished: NONE, failed: NONE, ...kept };
}

/** Want something, or no more. The browser asks its person only when notifications are switched on; false: it said no. */
export async function want(kind: Kind, what: keyof Wanted, isOn: boolean): Promise<boolean> {
  if (what === "notify" && isOn && !(await mayNotify())) return false;
  wanted.value = { ...wanted.peek(), [kind]: { ...wanted.peek()[kind], [what]: isOn } };
  keep(KEPT, wanted.value);
  if (what === "sound" && isOn) play(kind);
  return true;
}

async function mayNotify(): Promise<boolean> {
  if (!("Notification" in window)) return false;
  if (Notification.permission === "default") await Notification.requestPermission();
  return Notification.permission === "granted";
}

let isLeader = false;

/** One tab speaks for all: the one that has the lock. Tabs that are looked at say so with another. */
export function takeTurns(): () => void {
  const abort = new AbortController();
  const held = new Promise<void>((resolve) => abort.signal.addEventListener("abort", () => resolve()));
  if (!navigator.locks) {
    // Without a secure context there are no locks, and no notifications either.
    isLeader = true;
    return () => {};
  }
  const ask = { signal: abort.signal };
  navigator.locks.request(LEADER, ask, () => ((isLeader = true), held)).catch(() => {});
  let leave: (() => void) | null = null;
  const follow = () => {
    const isSeen = !document.hidden && document.hasFocus();
    if (isSeen && !leave) {
      const seen = new Promise<void>((resolve) => (leave = resolve));
      navigator.locks.request(SEEN, { mode: "shared" }, () => seen).catch(() => {});
    } else if (!isSeen && leave) {
      leave();
      leave = null;
    }
  };
  const events = ["focus", "blur", "visibilitychange"];
  follow();
  for (const name of events) addEventListener(name, follow);
  return () => {
    for (const name of events) removeEventListener(name, follow);
    leave?.();
    isLeader = false;
    abort.abort();
  };
}

async function isSomebodyLooking(): Promise<boolean> {
  if (!navigator.locks) return !document.hidden;
  return !!(await navigator.locks.query()).held?.some((each) => each.name === SEEN);
}

/** What there is to tell; `id` is that of the question, else of the session. */
export interface Notice {
  kind: Kind;
  id: string;
  session: string;
  title: string;
  body: string;
}

/** Tell of an event, if this tab speaks and it is wanted. Whoever looks at the page sees it there. */
export async function tell({ kind, id, session, title, body }: Notice): Promise<void> {
  if (!isLeader) return;
  const { notify, sound } = wanted.peek()[kind];
  if (sound) play(kind);
  if (!notify || !("Notification" in window) || Notification.permission !== "granted" || (await isSomebodyLooking())) return;
  const data = link({ view: "session", id: session });
  await show(title, { body, tag: `${kind} ${id}`, renotify: true, icon: "./icons/wheel.svg", data });
}

/** What was told is over. */
export async function untell(kind: Kind, id: string): Promise<void> {
  const tag = `${kind} ${id}`;
  const worker = await navigator.serviceWorker?.getRegistration();
  for (const each of (await worker?.getNotifications({ tag })) ?? []) each.close();
  own.get(tag)?.close();
}

/** Those of this page itself, by their tags. */
const own = new Map<string, Notification>();

/** More than TypeScript knows of: one that takes the place of another is told as well. */
type Options = NotificationOptions & { tag: string; renotify: boolean };

/** Through the service worker where there is one: a phone takes them from nowhere else, and a click finds the page again. */
async function show(title: string, options: Options): Promise<void> {
  const worker = await navigator.serviceWorker?.getRegistration();
  if (worker?.active) return worker.showNotification(title, options);
  try {
    const notice = new Notification(title, options);
    own.set(options.tag, notice);
    notice.onclose = () => own.delete(options.tag);
    notice.onclick = () => {
      window.focus();
      location.hash = String(options.data);
      notice.close();
    };
  } catch {
    // A browser that wants a worker for it, where the page may have none, cannot tell of anything.
  }
}

/** A notification was clicked: the worker says where it leads. */
export function followClicks(): () => void {
  const workers = navigator.serviceWorker;
  const receive = (event: MessageEvent) => {
    const { open } = (event.data ?? {}) as { open?: unknown };
    if (typeof open === "string" && open.startsWith("#/")) location.hash = open;
  };
  workers?.addEventListener("message", receive);
  return () => workers?.removeEventListener("message", receive);
}

const TONES: Record<Kind, readonly number[]> = { question: [660, 880], finished: [523, 659], failed: [330, 247] };
let audio: AudioContext | null = null;

function play(kind: Kind): void {
  audio ??= new AudioContext();
  void audio.resume();
  TONES[kind].forEach((pitch, at) => tone(audio!, pitch, audio!.currentTime + at * 0.14));
}

function tone(context: AudioContext, pitch: number, from: number): void {
  const source = context.createOscillator();
  const volume = context.createGain();
  source.frequency.value = pitch;
  volume.gain.setValueAtTime(0.0001, from);
  volume.gain.exponentialRampToValueAtTime(0.12, from + 0.02);
  volume.gain.exponentialRampToValueAtTime(0.0001, from + 0.16);
  source.connect(volume).connect(context.destination);
  source.start(from);
  source.stop(from + 0.18);
}
