/** A dialog with a head, and what it shows once that was loaded. */

import type { ComponentChildren } from "preact";
import type { Status } from "../api/types";
import { Dialog } from "../ui/dialog";
import { errorWords } from "../ui/error-words";
import type { Loading } from "../ui/load";

export function PanelDialog(props: { title: string; onClose: () => void; children: ComponentChildren; class?: string }) {
  return (
    <Dialog title={props.title} onClose={props.onClose} class={`panel-dialog ${props.class ?? ""}`}>
      <div class="panel" onKeyDown={keepKeys}>
        <div class="row panel-head">
          <h2 class="grow">{props.title}</h2>
          <button class="button plain" aria-label="Close" onClick={props.onClose}>
            ×
          </button>
        </div>
        {props.children}
      </div>
    </Dialog>
  );
}

/** What is pressed in a dialog is not for the page behind it. Escape is the browser's, which closes the dialog. */
export function keepKeys(event: KeyboardEvent): void {
  event.stopPropagation();
}

/** What went wrong in a dialog is said in it: the page behind is out of reach. */
export function Failure(props: { error: Error | null }) {
  return props.error && (
    <p class="wrong" role="alert">
      {errorWords(props.error)}
    </p>
  );
}

/** What is shown while it loads, and where it could not be. */
export function LoadState(props: { of: Loading; words?: string }) {
  const { error, isLoading, again } = props.of;
  if (isLoading) return <p class="quiet">{props.words ?? "Loading…"}</p>;
  if (!error) return null;
  return (
    <div role="alert">
      <p class="wrong">{errorWords(error)}</p>
      <button class="button" onClick={again}>
        Try again
      </button>
    </div>
  );
}

/** Before something is asked that only a CLI knows, where none lives: looking at a panel starts none. */
export function StartFirst(props: { of: Loading; status: Status; words: string }) {
  const { value, error, isLoading, again } = props.of;
  if (value || error || isLoading) return null;
  return (
    <div class="start-first">
      <p class="quiet small">
        Its CLI is not running.
        {props.status.source === "transcript" &&
          " Started, it goes on with the session here: end its claude in the terminal first, if one still runs."}
      </p>
      <button type="button" class="button" onClick={again}>
        {props.words}
      </button>
    </div>
  );
}
