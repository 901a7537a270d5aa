/** A dialog with a head, and what it shows once that was loaded. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Refusal } from "../api/http";
import type { Status } from "../api/types";
import { Dialog } from "../ui/dialog";

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

/** What the server said, with its advice. */
export function wordsOf(error: Error): string {
  return error instanceof Refusal && error.advice ? `${error.message} (${error.advice})` : error.message;
}

/** What went wrong in a dialog is said in it: the page behind is out of reach. */
export function Failure(props: { error: Error | null }) {
  return props.error && (
    <p class="wrong" role="alert">
      {wordsOf(props.error)}
    </p>
  );
}

export interface Loaded<T> {
  data: T | null;
  error: Error | null;
  isLoading: boolean;
  load: () => void;
  set: (data: T) => void;
}

/** Something read from the server, at once or when `load` is called. */
export function useLoaded<T>(read: () => Promise<T>, isAtOnce = true): Loaded<T> {
  const [data, set] = useState<T | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isLoading, setLoading] = useState(isAtOnce);
  const load = () => {
    setLoading(true);
    setError(null);
    read()
      .then(set, setError)
      .finally(() => setLoading(false));
  };
  useEffect(() => {
    if (isAtOnce) load();
  }, []);
  return { data, error, isLoading, load, set };
}

/** What is shown while it loads, and where it could not be. */
export function LoadState(props: { of: Pick<Loaded<unknown>, "error" | "isLoading" | "load">; words?: string }) {
  const { error, isLoading, load } = props.of;
  if (isLoading) return <p class="quiet">{props.words ?? "Loading…"}</p>;
  if (!error) return null;
  return (
    <div role="alert">
      <p class="wrong">{wordsOf(error)}</p>
      <button class="button" onClick={load}>
        Try again
      </button>
    </div>
  );
}

/** Before something is asked that only a CLI knows, where none lives: looking at a panel starts none. */
export function StartFirst(props: { of: Pick<Loaded<unknown>, "data" | "error" | "isLoading" | "load">; status: Status; words: string }) {
  const { data, error, isLoading, load } = props.of;
  if (data || error || isLoading) return null;
  return (
    <div class="start-first">
      <p class="quiet small">
        Its CLI is not running.
        {props.status.source === "transcript" &&
          " Started, it goes on with the session here: end its claude in the terminal first, if one still runs."}
      </p>
      <button type="button" class="button" onClick={load}>
        {props.words}
      </button>
    </div>
  );
}
