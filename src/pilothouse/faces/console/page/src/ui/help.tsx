/** All keys that count at the moment, by group. */

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog";
import { SingleKeysSwitch } from "./browser-choices";
import { keyGroups, useKeys, type Key } from "./keys";

const isOpen = signal(false);

export function openHelp(): void {
  isOpen.value = true;
}

export function Help() {
  useKeys("Everywhere", [{ press: "?", does: "Show the keys", act: openHelp }]);
  return isOpen.value ? <Sheet onClose={() => (isOpen.value = false)} /> : null;
}

function Sheet(props: { onClose: () => void }) {
  const [groups] = useState(grouped);
  return (
    <Dialog title="Keys" onClose={props.onClose} class="panel-dialog help">
      <div class="panel" onKeyDown={(event) => event.stopPropagation()}>
        <div class="row panel-head">
          <h2 class="grow">Keys</h2>
          <button class="button plain" autofocus aria-label="Close" onClick={props.onClose}>
            ×
          </button>
        </div>
        <SingleKeysSwitch />
        <div class="help-groups">
          {groups.map(([name, keys]) => (
            <section key={name}>
              <h3>{name}</h3>
              <dl>
                {keys.map(([does, presses]) => (
                  <div key={does}>
                    <dt>
                      {presses.map((press) => (
                        <kbd key={press}>{keyName(press)}</kbd>
                      ))}
                    </dt>
                    <dd>{does}</dd>
                  </div>
                ))}
              </dl>
            </section>
          ))}
        </div>
      </div>
    </Dialog>
  );
}

/** What belongs to fields and lists themselves, and is in no table. */
const FIXED: readonly [string, readonly Key[]][] = [
  [
    "In the list of sessions",
    [
      { press: "j", does: "Next session", act: () => {} },
      { press: "k", does: "Session before", act: () => {} },
      { press: "Enter", does: "Open it", act: () => {} },
    ],
  ],
  [
    "While a message is written",
    [
      { press: "Enter", does: "Send", act: () => {} },
      { press: "shift+Enter", does: "New line", act: () => {} },
      { press: "ArrowUp", does: "The message before, where the field is empty", act: () => {} },
    ],
  ],
];

/** The groups with the newest first; keys that do the same stand together. */
function grouped(): [string, [string, string[]][]][] {
  const all = new Map<string, Map<string, string[]>>();
  const live = [...keyGroups.peek()].reverse().map((group) => [group.name, group.keys] as const);
  for (const [name, keys] of [...live, ...FIXED]) {
    if (!keys.length) continue;
    const group = all.get(name) ?? new Map<string, string[]>();
    for (const key of keys) group.set(key.does, [...new Set([...(group.get(key.does) ?? []), key.press])]);
    all.set(name, group);
  }
  return [...all].map(([name, keys]) => [name, [...keys]]);
}

const NAMES: Record<string, string> = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" };

export function keyName(press: string): string {
  return press
    .split(/\+(?=.)/)
    .map((each) => NAMES[each] ?? { ctrl: "Ctrl", shift: "Shift", alt: "Alt" }[each] ?? each)
    .join(" ");
}
