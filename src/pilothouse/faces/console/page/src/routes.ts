/** Which view is shown: the part of the address behind `#`, so that every view has a link. */

import { computed, signal } from "@preact/signals";

export type Route =
  | { view: "sessions" }
  | { view: "session"; id: string; item?: string }
  | { view: "new" }
  | { view: "journal"; session?: string }
  | { view: "overview" | "policy" | "machines" | "settings" };

const LOOKING = ["overview", "policy", "machines", "settings"] as const;

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

export const route = computed<Route>(() => read(hash.value));

export function link(to: Route): string {
  switch (to.view) {
    case "sessions":
      return "#/";
    case "session":
      return `#/session/${encodeURIComponent(to.id)}${to.item ? `/${encodeURIComponent(to.item)}` : ""}`;
    case "journal":
      return `#/journal${to.session ? `/${encodeURIComponent(to.session)}` : ""}`;
    default:
      return `#/${to.view}`;
  }
}

export function go(to: Route): void {
  location.hash = link(to);
}

function read(given: string): Route {
  const [view, ...rest] = given.replace(/^#\/?/, "").split("/").map(decoded);
  if (view === "session" && rest[0]) return { view, id: rest[0], ...(rest[1] ? { item: rest[1] } : {}) };
  if (view === "new") return { view };
  if (view === "journal") return { view, ...(rest[0] ? { session: rest[0] } : {}) };
  const looking = LOOKING.find((each) => each === view);
  return looking ? { view: looking } : { view: "sessions" };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
