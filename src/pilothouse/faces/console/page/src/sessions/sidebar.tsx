/** Every session, by what it needs of a person: search, filters, and a list that keys move through. */

import { computed, signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { go, link, route } from "../routes";
import { keep, readKept } from "../state/kept";
import { hasOlder, listed, listMore, GROUP_NAMES, GROUPS, type Group } from "../state/sessions";
import { inField, useKeys } from "../ui/keys";
import { toastError } from "../ui/toasts";
import { FilterButton, ActiveFilters } from "./filter-panel";
import { clearFilters, followSearch, isNarrowed, isSearching, isShowingArchived, shownArchived, shownIds, words } from "./filters";
import { archiveById } from "./row-menu";
import { layoutChanged, onScroll, RowList } from "./row-list";
import { RowLine, type RowCursor } from "./session-row";

const FOLDED = "pilothouse.folded";

const folded = signal<readonly string[]>(readKept(FOLDED, []));
const at = signal<string | null>(null);
/** The Tab key stops at one row: the one that the keys were on, while it is shown, or else the first. */
const stop = computed(() => {
  const shown = isShowingArchived.value
    ? shownArchived.value.map((row) => row.session_id)
    : GROUPS.filter((group) => !isFoldedNow(group)).flatMap((group) => shownIds.value[group]);
  return at.value && shown.includes(at.value) ? at.value : (shown[0] ?? null);
});
const cursor: RowCursor = { at: stop, moveTo: (id) => (at.value = id) };

export function Sidebar() {
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  useEffect(followSearch, []);
  useEffect(() => {
    if (route.value.view === "session") at.value = route.value.id;
  }, [route.value]);
  useKeys("Sessions", [
    { press: "c", does: "New session", act: () => go({ view: "new" }) },
    { press: "/", does: "Search sessions", act: () => focusIn(() => field.current) },
    { press: "s", does: "Go to the list of sessions", act: () => focusIn(() => stopOf(list.current)) },
    { press: "E", does: "Archive the session", act: () => archiveAtHand() },
  ]);
  return (
    <div class="sessions">
      <div class="sessions-tools">
        <div class="row">
          <label class="unseen" for="session-search">
            Search sessions
          </label>
          <input
            ref={field}
            id="session-search"
            class="field"
            type="search"
            placeholder="Search sessions"
            autocomplete="off"
            value={words.value}
            onInput={(event) => (words.value = event.currentTarget.value)}
            onKeyDown={(event) => leaveSearch(event, list.current)}
          />
          <FilterButton />
          <a class="button main new-session" href={link({ view: "new" })} aria-label="New session" title="New session (c)">
            New
          </a>
        </div>
        <ActiveFilters />
      </div>
      <div ref={list} class="sessions-list" onKeyDown={moveByKeys}>
        <Lists />
      </div>
    </div>
  );
}

function Lists() {
  const shown = shownIds.value;
  useLayoutEffect(layoutChanged, [shown, folded.value]);
  if (!listed.value) return <p class="sessions-note">Loading sessions…</p>;
  if (isShowingArchived.value) return <ArchivedList />;
  const isEmpty = GROUPS.every((group) => !shown[group].length);
  return (
    <>
      {GROUPS.map((group) => shown[group].length > 0 && <GroupList key={group} group={group} ids={shown[group]} />)}
      {isEmpty && <Nothing />}
      {!isNarrowed.value && hasOlder.value && <LoadOlder />}
    </>
  );
}

function Nothing() {
  if (!isNarrowed.value) return <p class="sessions-note">No sessions yet. Press c to start one.</p>;
  return (
    <div class="sessions-note">
      <p>{isSearching.value ? "Searching…" : "No session fits."}</p>
      <button class="button plain" onClick={clearFilters}>
        Clear search and filters
      </button>
    </div>
  );
}

function GroupList(props: { group: Group; ids: readonly string[] }) {
  const { group, ids } = props;
  const isFolded = isFoldedNow(group);
  const isAll = isNarrowed.value || !hasOlder.value || group === "waiting" || group === "working";
  return (
    <section class={`session-group ${group}`}>
      <GroupHead
        name={GROUP_NAMES[group]}
        count={`${ids.length.toLocaleString()}${isAll ? "" : "+"}`}
        isFolded={isFolded}
        onFold={() => fold(group)}
      />
      {!isFolded && <RowList name={GROUP_NAMES[group]} ids={ids} cursor={cursor} />}
    </section>
  );
}

function GroupHead(props: { name: string; count: string; isFolded: boolean; onFold: () => void }) {
  return (
    <h2>
      <button class="group-head" aria-expanded={!props.isFolded} onClick={props.onFold}>
        <span class="fold-mark" aria-hidden="true" />
        {props.name} <span class="group-count">{props.count}</span>
      </button>
    </h2>
  );
}

function ArchivedList() {
  const rows = shownArchived.value;
  if (!rows.length) return <p class="sessions-note">{isSearching.value ? "Loading…" : "Nothing is archived."}</p>;
  return (
    <section class="session-group">
      <h2 class="group-head">
        Archived <span class="group-count">{rows.length}</span>
      </h2>
      <ul aria-label="Archived">
        {rows.map((row) => (
          <RowLine key={row.session_id} row={row} cursor={cursor} />
        ))}
      </ul>
    </section>
  );
}

const isLoading = signal(false);
/** So near to the end older sessions are asked for. */
const NEAR_PX = 1500;
const PAGE = 500;

/** Older sessions come when one scrolls to them. The button is for whoever has folded what is in the way. */
function LoadOlder() {
  const button = useRef<HTMLButtonElement>(null);
  const load = async () => {
    if (isLoading.peek()) return;
    isLoading.value = true;
    try {
      await listMore(PAGE);
    } catch (error) {
      toastError(error);
    } finally {
      isLoading.value = false;
    }
  };
  const look = () => {
    const at = button.current?.getBoundingClientRect();
    if (at && at.height > 0 && at.top < innerHeight + NEAR_PX) void load();
  };
  useEffect(() => onScroll(look), []);
  return (
    <button ref={button} class="button plain session-more" aria-busy={isLoading.value} onClick={() => void load()}>
      {isLoading.value ? "Loading older sessions…" : "Load older sessions"}
    </button>
  );
}

function isFoldedNow(group: Group): boolean {
  return folded.value.includes(group) && !isNarrowed.value;
}

function fold(group: Group): void {
  const now = folded.peek();
  folded.value = now.includes(group) ? now.filter((each) => each !== group) : [...now, group];
  keep(FOLDED, folded.value);
}

// Keys

/** Focus something of the list; where the screen is narrow the list has to come first. */
function focusIn(find: () => HTMLElement | null | undefined): void {
  const element = find();
  if (element?.checkVisibility()) return element.focus();
  go({ view: "sessions" });
  setTimeout(() => find()?.focus(), 50);
}

function linksOf(list: HTMLElement | null): HTMLElement[] {
  return [...(list?.querySelectorAll<HTMLElement>("a[data-session]") ?? [])];
}

function stopOf(list: HTMLElement | null): HTMLElement | undefined {
  const links = linksOf(list);
  return links.find((each) => each.dataset.session === stop.peek()) ?? links[0];
}

function moveByKeys(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target)) return;
  const links = linksOf(event.currentTarget);
  const here = links.findIndex((each) => each.parentElement?.contains(document.activeElement));
  const to = { j: here + 1, ArrowDown: here + 1, k: here - 1, ArrowUp: here - 1 }[event.key];
  if (event.key === "Home" || event.key === "End") toEdge(event.currentTarget, event.key === "Home");
  else if (to !== undefined && links[to]) links[to].focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** The rows at the edge are drawn when the list was scrolled there. */
function toEdge(list: HTMLElement, isFirst: boolean): void {
  const rows = list.querySelectorAll(".session-group li");
  rows[isFirst ? 0 : rows.length - 1]?.scrollIntoView({ block: isFirst ? "start" : "end" });
  layoutChanged();
  requestAnimationFrame(() => {
    const links = linksOf(list);
    links[isFirst ? 0 : links.length - 1]?.focus();
  });
}

function leaveSearch(event: KeyboardEvent & { currentTarget: HTMLInputElement }, list: HTMLElement | null): void {
  if (event.key === "Escape") {
    if (words.peek()) words.value = "";
    else event.currentTarget.blur();
  } else if (event.key === "ArrowDown") linksOf(list)[0]?.focus();
  else if (event.key === "Enter") linksOf(list)[0]?.click();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** The row that has the focus, else the session that is shown. */
function archiveAtHand(): void {
  const focused = document.activeElement?.closest("li")?.querySelector<HTMLElement>("a[data-session]")?.dataset.session;
  const shown = route.peek();
  const id = focused ?? (shown.view === "session" ? shown.id : null);
  if (id) archiveById(id);
}
