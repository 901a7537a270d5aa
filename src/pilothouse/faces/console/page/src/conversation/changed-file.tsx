/** What a call changes in a file: the lines around the change, or all of the file. */

import { useState } from "preact/hooks";
import type { DiffView, ToolItem } from "../api/types";
import { Diff } from "../ui/diff";
import { toast, toastError } from "../ui/toasts";
import { sourceOf, wholeFileIn } from "./item-source";

export function ChangedFile(props: { view: DiffView; item: ToolItem; sessionId: string }) {
  const { view, item } = props;
  const [whole, show] = useState<DiffView | null>(null);
  const [isLoading, load] = useState(false);
  const read = async () => {
    load(true);
    try {
      const found = wholeFileIn(await sourceOf(props.sessionId, item.id), view);
      if (found) show(found);
      else toast("The lines of this call do not have the whole file.");
    } catch (error) {
      toastError(error);
    } finally {
      load(false);
    }
  };
  return (
    <>
      <Diff key={whole ? "whole" : "changes"} view={whole ?? view} isBare shown={whole ? 400 : 24} />
      {item.state === "done" && !view.is_new && (
        <button
          type="button"
          class="plain-action"
          disabled={isLoading}
          onClick={() => (whole ? show(null) : void read())}
        >
          {whole ? "Only what changes" : "Whole file"}
        </button>
      )}
    </>
  );
}
