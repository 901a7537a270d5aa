/** A new session that begins with the conversation of another one, to its end or up to a prompt. */

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { get, part, post } from "../api/http";
import type { ConversationPage, ItemSource, Started } from "../api/types";
import { go } from "../routes";
import { kept } from "../state/kept";
import { titleOf } from "../state/rows";
import { rowOf } from "../state/sessions";
import { Dialog } from "../ui/dialog";
import { randomId } from "../ui/ids";
import { Failure, keepKeys } from "./panel-dialog";

interface Forking {
  id: string;
  /** The prompt before which the fork branches; the end if left out. */
  before?: { id: string; text: string };
}

const forking = signal<Forking | null>(null);

/** What is filled in of a fork that is not started yet. */
interface Begun {
  prompt?: string;
  label?: string;
}

/** Ask for the first message of a fork, and start it. With `before`, it branches before that prompt. */
export function forkSession(id: string, before?: { id: string; text: string }): void {
  forking.value = before ? { id, before } : { id };
}

export function ForkDialog() {
  const asked = forking.value;
  return asked && <ForkForm key={asked.id + (asked.before?.id ?? "")} asked={asked} />;
}

function ForkForm(props: { asked: Forking }) {
  const { id, before } = props.asked;
  const row = rowOf(id);
  const begun = kept<Begun>(`pilothouse.fork.${id} ${before?.id ?? ""}`, {});
  const { prompt = before?.text ?? "", label = row?.label ?? "" } = begun.now.value;
  const change = (some: Begun) => begun.write({ ...begun.now.peek(), ...some });
  const [key] = useState(randomId);
  const [isBusy, setBusy] = useState(false);
  const [failed, setFailed] = useState<Error | null>(null);
  const close = () => (forking.value = null);
  const submit = async (event?: Event) => {
    event?.preventDefault();
    if (!prompt.trim() || isBusy) return;
    setBusy(true);
    try {
      const at = before ? await lastBefore(id, before.id) : null;
      const body = { prompt, label: label.trim() || null, key, ...(at ? { at } : {}) };
      const started = await post<Started>(`/api/sessions/${part(id)}/fork`, body);
      begun.write({});
      close();
      go({ view: "session", id: started.session_id });
    } catch (error) {
      setFailed(error as Error);
      setBusy(false);
    }
  };
  return (
    <Dialog title="Fork the session" onClose={close} class="form-dialog">
      <form onSubmit={(event) => void submit(event)} onKeyDown={keepKeys}>
        <h2>Fork {row ? `“${titleOf(row)}”` : "the session"}</h2>
        <p class="quiet">
          {before
            ? "A new session begins with the conversation up to this prompt. This session stays as it is."
            : "A new session begins with the whole conversation. This session stays as it is."}
        </p>
        <label class="stacked">
          <span>First message of the new session</span>
          <textarea
            class="field"
            rows={5}
            autofocus
            value={prompt}
            onInput={(event) => change({ prompt: event.currentTarget.value })}
            onKeyDown={(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && void submit(event)}
          />
        </label>
        <label class="stacked">
          <span>Label (optional)</span>
          <input class="field" maxLength={256} value={label} onInput={(event) => change({ label: event.currentTarget.value })} />
        </label>
        <Failure error={failed} />
        <div class="row dialog-ways">
          <button type="button" class="button" onClick={close}>
            Cancel
          </button>
          <button class="button main" disabled={isBusy || !prompt.trim()}>
            {isBusy ? "Starting…" : "Start the fork"} <kbd>Ctrl Enter</kbd>
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** The uuid of the last message before a prompt: a fork before the prompt keeps it. */
async function lastBefore(id: string, prompt: string): Promise<string> {
  const path = `/api/sessions/${part(id)}/conversation`;
  const page = await get<ConversationPage>(path, { before: prompt, limit: 50 });
  for (const item of page.items.reverse()) {
    if (item.agent || !isSaid(item)) continue;
    if (item.kind === "prompt") return item.id;
    const uuid = lastUuid(await get<ItemSource>(`${path}/source`, { item: item.id }));
    if (uuid) return uuid;
  }
  throw new Error("Nothing was said before this prompt. Start a new session instead.");
}

/** Whether the model was told it, or has said it, to its end. */
function isSaid(item: ConversationPage["items"][number]): boolean {
  switch (item.kind) {
    case "tool":
      return item.result !== null && item.result !== undefined;
    case "text":
      return (item.state ?? "done") === "done";
    case "prompt":
      return (item.state ?? "taken") === "taken";
    default:
      return false;
  }
}

function lastUuid(source: ItemSource): string | null {
  const lines = [...(source.transcript ?? []), ...(source.entries ?? []).map((entry) => entry.body)];
  const last = lines.at(-1) as { uuid?: unknown } | undefined;
  return typeof last?.uuid === "string" ? last.uuid : null;
}
