/** The status for those who steer: besides its row's changes it is read now and then, since no row tells of the queue. */

import type { Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Status } from "../api/types";
import { followStatus, refreshStatus as readAgain, statusOf } from "../conversation/session-status";

const AGAIN_MS = 2000;
const SOON_MS = 1200;

/** The status of a session, current as long as the component is there; null until it is known. */
export function useStatus(id: string): Signal<Status | null> {
  const status = statusOf(id);
  useEffect(() => followStatus(id), [id]);
  useEffect(() => {
    const timer = setInterval(() => {
      const { state, queued } = status.peek() ?? {};
      const isAtWork = state === "active" || state === "awaiting_input" || queued?.length;
      if (isAtWork && !document.hidden) readAgain(id);
    }, AGAIN_MS);
    return () => clearInterval(timer);
  }, [id]);
  return status;
}

/** Something was done to the session here: read its status, and once more when that has had its effect. */
export function refreshStatus(id: string): void {
  readAgain(id, true);
  setTimeout(() => readAgain(id), SOON_MS);
}
