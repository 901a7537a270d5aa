/** The name of the person at this browser, as others read it behind an answer; empty: nobody has set one. */

import { signal } from "@preact/signals";
import { forget, keep, readKept } from "../state/kept";

const KEPT = "pilothouse.name";
export const LONGEST_NAME = 64;

export const ownName = signal(readKept(KEPT, ""));

/** That of the rules, which the server takes from nobody. */
const RULES = "policy";

export function setOwnName(name: string): void {
  const given = name.trim().slice(0, LONGEST_NAME);
  ownName.value = given === RULES ? "" : given;
  if (ownName.value) keep(KEPT, ownName.value);
  else forget(KEPT);
}
