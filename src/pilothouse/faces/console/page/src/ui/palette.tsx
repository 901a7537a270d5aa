/** Everything by name: sessions, views, and what the keys of the moment do. */

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { go, type Route } from "../routes";
import { baseName, findRows, titleOf } from "../state/rows";
import { GROUP_NAMES, groupOf, sessions, takeRows } from "../state/sessions";
import { Dialog } from "./dialog";
import { fit, WHOLE } from "./fuzzy";
import { keyName } from "./help";
import { keyGroups, useKeys } from "./keys";
import { toastError } from "./toasts";
import { isConverting } from "./typing";

interface Entry {
  id: string;
  name: string;
  kind: string;
  press?: string;
  act: () => void;
}

const MOST = 40;
const SEARCH_AFTER_MS = 200;
const isOpen = signal(false);

const VIEWS: readonly [Route, string][] = [
  [{ view: "sessions" }, "Inbox and sessions"],
  [{ view: "new" }, "New session"],
  [{ view: "overview" }, "Overview"],
  [{ view: "policy" }, "Policy"],
  [{ view: "machines" }, "Machines"],
  [{ view: "journal" }, "Journal"],
  [{ view: "settings" }, "Settings"],
];

export function openPalette(): void {
  isOpen.value = true;
}

export function Palette() {
  useKeys("Everywhere", [{ press: "ctrl+k", does: "Find sessions, views and actions", act: openPalette, inFields: true }]);
  return isOpen.value ? <Finder onClose={() => (isOpen.value = false)} /> : null;
}

function Finder(props: { onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  // The keys of the view behind; the palette brings none that count.
  const [actions] = useState(actionEntries);
  const found = search(typed.trim().toLowerCase(), actions);
  useServerSearch(typed.trim());
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at]);
  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    props.onClose();
    // What it does may want the focus, which the dialog gives back first.
    setTimeout(entry.act);
  };
  const keyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (isConverting(event)) return;
    if (event.key === "ArrowDown") setAt((at + 1) % Math.max(1, found.length));
    else if (event.key === "ArrowUp") setAt((at - 1 + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") choose(found[at]);
    else if (event.key === "k" && (event.ctrlKey || event.metaKey)) props.onClose();
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Find" onClose={props.onClose} class="palette">
      <div onKeyDown={keyDown}>
        <input
          class="field"
          autofocus
          role="combobox"
          aria-label="Find sessions, views and actions"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found[at] ? `palette-${at}` : undefined}
          placeholder="Find sessions, views and actions"
          autocomplete="off"
          spellcheck={false}
          value={typed}
          onInput={(event) => {
            setTyped(event.currentTarget.value);
            setAt(0);
          }}
        />
        <ul id="palette-list" ref={list} role="listbox" aria-label="Found">
          {found.map((entry, index) => (
            <li key={entry.id} id={`palette-${index}`} role="option" aria-selected={index === at} onClick={() => choose(entry)}>
              <span class="grow cut">{entry.name}</span>
              <span class="faint small cut">{entry.kind}</span>
              {entry.press && <kbd>{keyName(entry.press)}</kbd>}
            </li>
          ))}
        </ul>
        {!found.length && <p class="sessions-note">Nothing fits.</p>}
      </div>
    </Dialog>
  );
}

function search(typed: string, actions: readonly Entry[]): Entry[] {
  if (!typed) return [...sessionEntries().slice(0, 12), ...actions, ...viewEntries()].slice(0, MOST);
  const scored = [...sessionEntries(), ...actions, ...viewEntries()]
    .map((entry) => ({ entry, score: fit(entry.name, typed) || (entry.kind.toLowerCase().includes(typed) ? 1 : 0) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score);
  // Letters here and there are of use only where nothing has the words as they were typed.
  const isExact = (scored[0]?.score ?? 0) >= WHOLE;
  return scored
    .filter(({ score }) => !isExact || score >= WHOLE)
    .slice(0, MOST)
    .map(({ entry }) => entry);
}

function sessionEntries(): Entry[] {
  return sessions.value.map((row) => ({
    id: row.session_id,
    name: titleOf(row),
    kind: `${GROUP_NAMES[groupOf(row)]} · ${baseName(row.cwd)}`,
    act: () => go({ view: "session", id: row.session_id }),
  }));
}

function viewEntries(): Entry[] {
  return VIEWS.map(([to, name]) => ({ id: `view ${name}`, name, kind: "View", act: () => go(to) }));
}

function actionEntries(): Entry[] {
  const entries = [...keyGroups.peek()].reverse().flatMap((group) =>
    group.keys
      .filter((key) => key.press !== "ctrl+k")
      .map((key) => ({ id: `${group.name} ${key.press}`, name: key.does, kind: group.name, press: key.press, act: key.act })),
  );
  return [...new Map(entries.map((entry) => [`${entry.kind} ${entry.name}`, entry])).values()];
}

/** Sessions that are too old to be here are asked for. */
function useServerSearch(typed: string): void {
  useEffect(() => {
    if (typed.length < 2) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      findRows({ search: typed, limit: 20 }, abort.signal)
        .then(takeRows)
        .catch((error) => abort.signal.aborted || toastError(error));
    }, SEARCH_AFTER_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [typed]);
}
