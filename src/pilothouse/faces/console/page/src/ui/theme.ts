/** Light, dark, or as the system has it; remembered in this browser. */

import { effect } from "@preact/signals";
import { kept } from "../state/kept";

export type Theme = "system" | "light" | "dark";

export const THEMES: readonly [Theme, string][] = [
  ["system", "As the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

export const { now: theme, write: setTheme } = kept<Theme>("pilothouse.theme", "system");

/** Let the page follow the choice. */
export function useTheme(): void {
  effect(() => {
    if (theme.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
  });
}
