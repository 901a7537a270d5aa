/** A window over the page: the browser's own, so that focus and Escape are where they belong. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Toasts } from "./toasts";

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; class?: string }) {
  const own = useRef<HTMLDialogElement>(null);
  // Who selects text and lets go beside the window has not clicked beside it.
  const isBeside = useRef(false);
  useEffect(() => own.current?.showModal(), []);
  return (
    <dialog
      ref={own}
      class={props.class ?? ""}
      aria-label={props.title}
      onClose={props.onClose}
      onPointerDown={(event) => (isBeside.current = event.target === own.current)}
      onClick={(event) => isBeside.current && event.target === own.current && props.onClose()}
    >
      {props.children}
      {/* What the page says stands behind the window, out of sight and not to be heard. */}
      <Toasts />
    </dialog>
  );
}
