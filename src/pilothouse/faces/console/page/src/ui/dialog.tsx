/** A window over the page: the browser's own, so that focus and Escape are where they belong. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Toasts } from "./toasts";

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; class?: string }) {
  const own = useRef<HTMLDialogElement>(null);
  // Who selects text and lets go beside the window has not clicked beside it.
  const isBeside = useRef(false);
  // Only what is closed gives the focus back, and it must be in the page still.
  useLayoutEffect(() => {
    const dialog = own.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={own}
      class={props.class ?? ""}
      aria-label={props.title}
      onClose={() => own.current && props.onClose()}
      onPointerDown={(event) => (isBeside.current = event.target === own.current)}
      onClick={(event) => isBeside.current && event.target === own.current && props.onClose()}
    >
      {props.children}
      {/* What the page says stands behind the window, out of sight and not to be heard. */}
      <Toasts />
    </dialog>
  );
}
