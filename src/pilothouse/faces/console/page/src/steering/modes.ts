/** The permission modes, with the words that people choose by. */

import type { ModeChange } from "../api/types";

export type Mode = ModeChange["mode"];

export const MODES: readonly { mode: Mode; name: string; note: string }[] = [
  { mode: "default", name: "Ask first", note: "Asks before it edits files or runs commands" },
  { mode: "acceptEdits", name: "Accept edits", note: "Edits files without asking; asks before other commands" },
  { mode: "plan", name: "Plan", note: "Reads and plans; changes nothing until the plan is approved" },
  { mode: "auto", name: "Auto", note: "A classifier decides what needs no question" },
  { mode: "dontAsk", name: "Don't ask", note: "Denies what no rule allows, without a question" },
  { mode: "bypassPermissions", name: "Bypass permissions", note: "Does everything without asking. Only the setting allow_bypass opens it" },
];

export function modeName(mode: string | null | undefined): string {
  return MODES.find((each) => each.mode === mode)?.name ?? mode ?? "";
}
