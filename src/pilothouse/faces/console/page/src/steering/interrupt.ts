/** Stop the running turn: with a button, or with Escape where nothing else has that key first. */

import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { part, post } from "../api/http";
import type { Interrupted, Status } from "../api/types";
import { inField, isForLostField, useKeys } from "../ui/keys";
import { toastError } from "../ui/toasts";
import { isConverting } from "../ui/typing";
import { refreshStatus } from "./session-status";

export function useInterrupt(sessionId: string, status: Status | null, field: RefObject<HTMLTextAreaElement | null>) {
  const [isBusy, setBusy] = useState(false);
  const isPossible = status !== null && !status.foreign && (status.state === "active" || status.state === "awaiting_input");
  const act = () => {
    if (!isPossible || isBusy) return;
    setBusy(true);
    post<Interrupted>(`/api/sessions/${part(sessionId)}/interrupt`)
      .catch(toastError)
      .finally(() => {
        setBusy(false);
        refreshStatus(sessionId);
      });
  };
  const latest = useRef(act);
  latest.current = act;
  // A key of the table always keeps the browser from acting, and dialogs need their Escape. So the
  // table has the words only: `Esc` is the name of no key.
  useKeys("Message", isPossible ? [{ press: "Esc", does: "Interrupt the running turn", act }] : []);
  // Before the button is painted: who sees it may press the key.
  useLayoutEffect(() => {
    if (status?.state !== "active") return;
    const listen = (event: KeyboardEvent) => {
      // One that is held down has closed something else.
      if (event.key !== "Escape" || event.repeat || event.defaultPrevented || isConverting(event)) return;
      if (document.querySelector("dialog[open], :popover-open")) return;
      if ((inField(event.target) && event.target !== field.current) || isForLostField(event)) return;
      event.preventDefault();
      latest.current();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, [status?.state]);
  return { isPossible, isBusy, act };
}
