/** Light, dark, or as the system has it; remembered in this browser. */

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const KEPT = "pilothouse.theme";

export const theme = signal<Theme>((localStorage.getItem(KEPT) as Theme | null) ?? "system");

/** Let the page follow the choice. */
export function useTheme(): void {
  effect(() => {
    if (theme.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
    localStorage.setItem(KEPT, theme.value);
  });
}
