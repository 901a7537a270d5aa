/** What the list is narrowed to: words, directory, label, machine, state; and the search that asks the server as well. */

import { batch, computed, effect, signal } from "@preact/signals";
import { findRows, titleOf, type Row, type Rows } from "../state/rows";
import { groupIds, GROUPS, rowSignal, sessions, takeRows, type Group } from "../state/sessions";
import { toastError } from "../ui/toasts";

export interface Filters {
  cwd: string;
  label: string;
  machine: string;
  state: string;
}

const NONE: Filters = { cwd: "", label: "", machine: "", state: "" };
/** The machine that the server itself is on has no name in a row. */
export const OWN_MACHINE = "(this machine)";
const SEARCH_AFTER_MS = 200;

export const words = signal("");
export const filters = signal<Filters>(NONE);
export const isShowingArchived = signal(false);
/** The archived rows, while they are shown. */
export const archived = signal<readonly Row[]>([]);
export const isSearching = signal(false);
/** What the server found for these words in this directory, whichever links lead there. */
const found = signal<ReadonlySet<string>>(new Set());

/** Whether anything is left out. */
export const isNarrowed = computed(() => words.value.trim() !== "" || Object.values(filters.value).some(Boolean));

export function clearFilters(): void {
  words.value = "";
  filters.value = NONE;
}

export function setFilter(name: keyof Filters, value: string): void {
  filters.value = { ...filters.value, [name]: value };
}

/** The ids that are shown of each group. It follows who comes and goes, not every change of a row. */
export const shownIds = computed<Record<Group, readonly string[]>>(() => {
  const fits = matcher(words.value, filters.value);
  const chosen = (group: Group) => {
    const ids = groupIds(group).value;
    return isNarrowed.value ? ids.filter((id) => fits(rowSignal(id).peek())) : ids;
  };
  return Object.fromEntries(GROUPS.map((group) => [group, chosen(group)])) as Record<Group, readonly string[]>;
});

export const shownArchived = computed(() => archived.value.filter(matcher(words.value, filters.value)));

function matcher(typed: string, chosen: Filters): (row: Row | undefined) => boolean {
  const parts = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const foundIds = found.value;
  return (row) => {
    if (!row) return false;
    if (chosen.label && row.label !== chosen.label) return false;
    if (chosen.machine && (row.machine ?? OWN_MACHINE) !== chosen.machine) return false;
    if (chosen.state && row.state !== chosen.state) return false;
    if (foundIds.has(row.session_id)) return true;
    if (chosen.cwd && row.cwd !== trimmed(chosen.cwd)) return false;
    const text = [titleOf(row), row.cwd, row.label, row.machine, row.last_line, row.model, row.session_id].join("\n").toLowerCase();
    return parts.every((part) => text.includes(part));
  };
}

function trimmed(path: string): string {
  return path.replace(/(?<=.)\/+$/, "");
}

/** What the rows that are here have: suggestions, any other value can be typed. */
export const suggestions = computed(() => {
  const of = (read: (row: Row) => string | null | undefined) =>
    [...new Set(sessions.value.map(read).filter((value): value is string => !!value))].sort();
  return { cwd: of((row) => row.cwd), label: of((row) => row.label), machine: of((row) => row.machine) };
});

/** Ask the server for older rows that fit, a moment after the last letter. */
export function followSearch(): () => void {
  return effect(() => {
    const search = words.value.trim();
    const { cwd, label, machine, state } = filters.value;
    const isArchived = isShowingArchived.value;
    found.value = new Set();
    if (!search && !cwd && !label && !machine && !state && !isArchived) {
      archived.value = [];
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      isSearching.value = true;
      const query = { search, cwd, label, machine: machine === OWN_MACHINE ? "" : machine, state, limit: 500 };
      const take = (page: Rows) =>
        batch(() => {
          takeRows(page);
          found.value = new Set([...found.peek(), ...page.rows.map((row) => row.session_id)]);
        });
      const listed = findRows(query, abort.signal).then(take);
      const kept = isArchived
        ? findRows({ ...query, archived: true }, abort.signal).then(({ rows }) =>
            batch(() => {
              found.value = new Set([...found.peek(), ...rows.map((row) => row.session_id)]);
              archived.value = rows.filter((row) => row.archived);
            }),
          )
        : null;
      Promise.all([listed, kept])
        .catch((error) => abort.signal.aborted || toastError(error))
        .finally(() => (isSearching.value = false));
    }, SEARCH_AFTER_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  });
}
