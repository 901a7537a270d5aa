/** The messages that no turn has taken yet: seen, put into another order, taken back. */

import { useState } from "preact/hooks";
import { get, part, Refusal, remove } from "../api/http";
import type { Cancelled, ItemSource, Queued } from "../api/types";
import { toast, toastError } from "../ui/toasts";
import { Since } from "../sessions/session-row";
import { giveBack } from "./drafts";
import type { Content } from "./images";
import { hold, release, type Message, type Priority } from "./outbox";
import { refreshStatus } from "./session-status";

interface QueueProps {
  sessionId: string;
  queued: readonly Queued[];
  /** A message was taken back: what it said. */
  onTakenBack: (content: Content) => void;
}

const PRIORITIES: Record<string, string> = { now: "now", next: "in this turn", later: "after this turn" };

export function Queue(props: QueueProps) {
  const { sessionId, queued } = props;
  const [isBusy, setBusy] = useState(false);
  if (!queued.length) return null;
  const during = async (work: () => Promise<void>) => {
    setBusy(true);
    try {
      await work();
    } catch (error) {
      toastError(error);
    } finally {
      refreshStatus(sessionId);
      setBusy(false);
    }
  };
  const takeBack = (each: Queued) =>
    during(async () => {
      const original = await originalOf(sessionId, each.prompt_id);
      if (await cancel(sessionId, each.prompt_id)) props.onTakenBack(original.content);
      else toast("The session has taken this message already.");
    });
  return (
    <section class="queue" aria-label="Queued messages">
      <h3 class="small quiet">
        {queued.length === 1 ? "1 message waits" : `${queued.length} messages wait`} to be taken
      </h3>
      <ol>
        {queued.map((each, at) => (
          <li key={each.prompt_id} class="row">
            <span class="grow cut" title={each.text}>
              {each.text || "(image)"}
            </span>
            {each.priority && <span class="badge">{PRIORITIES[each.priority] ?? each.priority}</span>}
            {!each.sent && <span class="badge">not sent yet</span>}
            <Since at={each.said_at} />
            <button
              class="button plain"
              aria-label={`Move up: ${each.text}`}
              title="Move up"
              disabled={isBusy || at === 0}
              onClick={() => during(() => moveUp(sessionId, queued, at))}
            >
              ↑
            </button>
            <button class="button plain" disabled={isBusy} onClick={() => takeBack(each)}>
              Take back
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}

/**
 * Put a message before the one ahead of it. The CLI has them already, and its queue only grows at its end: so these
 * two and what is behind them are taken back and said again. What was taken back is kept from that moment on.
 */
async function moveUp(id: string, queued: readonly Queued[], at: number): Promise<void> {
  const [ahead, moved] = [queued[at - 1], queued[at]];
  if (!ahead || !moved) return;
  const originals = await Promise.all(queued.slice(at - 1).map((each) => originalOf(id, each.prompt_id)));
  const again: { promptId: string; held: ReturnType<typeof hold> }[] = [];
  try {
    for (const [index, each] of originals.entries()) {
      const { prompt_id: promptId } = queued[at - 1 + index]!;
      if (await takenBack(id, promptId, each)) again.push({ promptId, held: hold(id, each) });
      else toast("The session has taken a part of these messages already.");
    }
  } finally {
    if (again[0]?.promptId === ahead.prompt_id && again[1]?.promptId === moved.prompt_id) {
      again.splice(0, 2, again[1], again[0]);
    }
    for (const { held } of again) release(id, held);
  }
}

/** Take a message back to say it again; false: a turn has it. Where nobody knows, its words come back to the field. */
async function takenBack(id: string, promptId: string, message: Message): Promise<boolean> {
  try {
    return await cancel(id, promptId);
  } catch (error) {
    if (!(error instanceof Refusal)) giveBack(id, message.content);
    throw error;
  }
}

/** False: a turn has taken it. */
async function cancel(id: string, promptId: string): Promise<boolean> {
  try {
    return (await remove<Cancelled>(`/api/sessions/${part(id)}/messages/${part(promptId)}`)).cancelled;
  } catch (error) {
    if (error instanceof Refusal && error.code === "unknown-prompt") return false;
    throw error;
  }
}

/** The message as it was said; the queue itself has its first words only. */
async function originalOf(id: string, promptId: string): Promise<Message> {
  const source = await get<ItemSource>(`/api/sessions/${part(id)}/conversation/source`, { item: promptId });
  for (const entry of source.entries ?? []) {
    const { record, content, priority } = entry.body as { record?: string; content?: Content; priority?: Priority };
    if (record === "prompt.said" && content !== undefined) return { content, priority: priority ?? null };
  }
  throw new Error("The server does not have this message any more");
}
