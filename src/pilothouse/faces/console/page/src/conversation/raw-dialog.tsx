/** The lines that an item was made of, as the CLI wrote them, in a window over the page. */

import { signal } from "@preact/signals";
import type { ItemSource } from "../api/types";
import { Code } from "../ui/code";
import { Dialog } from "../ui/dialog";
import { dateTime } from "../ui/time";
import { toastError } from "../ui/toasts";
import { sourceOf } from "./item-source";

const shown = signal<ItemSource | null>(null);

export function showRaw(sessionId: string, item: string): void {
  sourceOf(sessionId, item).then((source) => (shown.value = source), toastError);
}

export function RawDialog() {
  const source = shown.value;
  if (!source) return null;
  const close = () => (shown.value = null);
  return (
    <Dialog title="Raw lines" class="source" onClose={close}>
      <div class="source-head row">
        <h2 class="grow">Raw lines of this {NAMES[source.item.kind] ?? "item"}</h2>
        <button type="button" class="button" onClick={close}>
          Close
        </button>
      </div>
      <div class="source-body">
        {(source.entries ?? []).map((entry) => (
          <section key={entry.seq}>
            <h3>
              Entry {entry.seq}, {entry.kind}, {dateTime(entry.at)}
            </h3>
            <Code text={pretty(entry.body)} language="json" />
          </section>
        ))}
        {(source.transcript ?? []).map((line, at) => (
          <section key={`t${at}`}>
            <h3>Line of the transcript</h3>
            <Code text={pretty(line)} language="json" />
          </section>
        ))}
        {!source.entries?.length && !source.transcript?.length && (
          <p class="quiet">The lines are no longer kept. This is the item itself.</p>
        )}
        <h3>The item</h3>
        <Code text={pretty(source.item)} language="json" shown={12} />
      </div>
    </Dialog>
  );
}

const NAMES: Partial<Record<ItemSource["item"]["kind"], string>> = {
  prompt: "prompt",
  text: "text",
  thinking: "thought",
  tool: "tool call",
  question: "question",
  turn: "turn",
  hook: "hook",
  notice: "notice",
};

function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? "";
}
