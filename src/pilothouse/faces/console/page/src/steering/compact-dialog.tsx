/** Summarise the conversation, perhaps with a word on what to keep. */

import { useState } from "preact/hooks";
import { part, post } from "../api/http";
import type { Said } from "../api/types";
import { kept } from "../state/kept";
import { toast } from "../ui/toasts";
import { Failure, PanelDialog } from "./panel-dialog";
import { refreshStatus } from "./session-status";

export function CompactDialog(props: { id: string; onClose: () => void }) {
  const { now, write } = kept(`pilothouse.compact.${props.id}`, "");
  const instructions = now.value;
  const [isBusy, setBusy] = useState(false);
  const [failed, setFailed] = useState<Error | null>(null);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    try {
      await post<Said>(`/api/sessions/${part(props.id)}/compact`, { instructions: instructions.trim() || null });
      write("");
      toast("The conversation is being summarised.");
      refreshStatus(props.id);
      props.onClose();
    } catch (error) {
      setFailed(error as Error);
      setBusy(false);
    }
  };
  return (
    <PanelDialog title="Compact the conversation" onClose={props.onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <p class="quiet">The model goes on with a summary in place of what was said so far. What you read here stays.</p>
        <label class="stacked">
          <span>What to keep in it (optional)</span>
          <textarea
            class="field"
            rows={3}
            autofocus
            value={instructions}
            onInput={(event) => write(event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && void submit(event)}
          />
        </label>
        <Failure error={failed} />
        <div class="row dialog-ways">
          <button type="button" class="button" onClick={props.onClose}>
            Cancel
          </button>
          <button class="button main" disabled={isBusy}>
            Compact <kbd>Ctrl Enter</kbd>
          </button>
        </div>
      </form>
    </PanelDialog>
  );
}
