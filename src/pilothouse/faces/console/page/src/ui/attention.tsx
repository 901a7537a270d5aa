/** What is seen and heard of the page when nobody looks at it: title, icon, notifications; and the shell that opens without a network. */

import { effect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { route, type Route } from "../routes";
import { titleOf } from "../state/rows";
import { listed, onSettled, questions, rowOf, rowSignal } from "../state/sessions";
import { escapeHidden } from "./hidden";
import { followClicks, takeTurns, tell, untell } from "./notices";
import { toastError } from "./toasts";

export function Attention() {
  useEffect(takeTurns, []);
  useEffect(followClicks, []);
  useEffect(followTitle, []);
  useEffect(followIcon, []);
  useEffect(tellOfQuestions, []);
  useEffect(tellOfEnds, []);
  useEffect(keepShell, []);
  return null;
}

const VIEW_NAMES: Partial<Record<Route["view"], string>> = {
  session: "Session",
  new: "New session",
  overview: "Overview",
  policy: "Policy",
  machines: "Machines",
  journal: "Journal",
  settings: "Settings",
};

function followTitle(): () => void {
  return effect(() => {
    const count = questions.value.length;
    const at = route.value;
    const row = at.view === "session" ? rowOf(at.id) : undefined;
    const name = row ? escapeHidden(titleOf(row)) : VIEW_NAMES[at.view];
    document.title = `${count ? `(${count}) ` : ""}${name ? `${name} · ` : ""}Pilothouse`;
  });
}

function followIcon(): () => void {
  return effect(() => {
    const count = questions.value.length;
    const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    if (icon) icon.href = count ? `data:image/svg+xml,${encodeURIComponent(badgedIcon(count))}` : "./icons/wheel.svg";
    const badges = navigator as Navigator & { setAppBadge?: (count: number) => Promise<void> };
    badges.setAppBadge?.(count).catch(() => {});
  });
}

/** The wheel with the number of questions at its corner. Only a number gets into it. */
function badgedIcon(count: number): string {
  const words = count > 99 ? "99+" : String(count);
  const size = words.length > 2 ? 20 : 30;
  return (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="14" fill="#0b6e75"/>' +
    '<g fill="none" stroke="#fff" stroke-width="4" stroke-linecap="round"><circle cx="32" cy="32" r="14"/>' +
    '<path d="M32 10v44M10 32h44M16.4 16.4l31.2 31.2M47.6 16.4 16.4 47.6"/></g>' +
    `<circle cx="43" cy="43" r="21" fill="#d97a00"/><text x="43" y="${43 + size / 3}" font-family="sans-serif" font-weight="700" ` +
    `font-size="${size}" fill="#fff" text-anchor="middle">${words}</text></svg>`
  );
}

/** Questions that were there when the page came are no news; of those that are settled nobody is told any more. */
function tellOfQuestions(): () => void {
  let known: ReadonlySet<string> | null = null;
  return effect(() => {
    const open = questions.value;
    if (!listed.value) {
      known = null;
      return;
    }
    const ids = new Set(open.map((each) => each.id));
    for (const { id, session_id: session, title } of known ? open.filter((each) => !known!.has(each.id)) : []) {
      tell({ kind: "question", id, session, title, body: titleFor(session) }).catch(toastError);
    }
    for (const id of known ?? []) if (!ids.has(id)) untell("question", id).catch(toastError);
    known = ids;
  });
}

function tellOfEnds(): () => void {
  return onSettled((row) => {
    const { session_id: id, reason, last_line: line } = row;
    const about = { id, session: id };
    if (row.state === "error") tell({ kind: "failed", ...about, title: `Failed: ${titleOf(row)}`, body: reason ?? "" }).catch(toastError);
    else if (row.state === "done") tell({ kind: "finished", ...about, title: `Done: ${titleOf(row)}`, body: line ?? "" }).catch(toastError);
  });
}

function titleFor(id: string): string {
  const row = rowSignal(id).peek();
  return row ? titleOf(row) : "";
}

interface ScriptPolicies {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): { createScriptURL(url: string): string };
}

const WORKER = "./sw.js";
/** A policy can be made once, and who signs in again has this anew. */
let isShellKept = false;

/** The service worker has the shell only, and a page that is being developed changes too often for one. */
function keepShell(): void {
  const isBuilt = (import.meta as { env?: { PROD?: boolean } }).env?.PROD;
  if (!isBuilt || isShellKept || !("serviceWorker" in navigator)) return;
  isShellKept = true;
  try {
    navigator.serviceWorker.register(workerUrl()).catch(() => {});
  } catch {
    // The page's policy may allow no worker; it works without.
  }
}

function workerUrl(): string {
  const { trustedTypes } = window as { trustedTypes?: ScriptPolicies };
  if (!trustedTypes) return WORKER;
  const policy = trustedTypes.createPolicy("pilothouse-sw", {
    createScriptURL: (url) => {
      if (url !== WORKER) throw new TypeError("this script is not allowed");
      return url;
    },
  });
  return policy.createScriptURL(WORKER);
}
