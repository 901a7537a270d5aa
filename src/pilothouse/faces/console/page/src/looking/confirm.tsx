/** Asks before something that cannot be taken back. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "../ui/dialog";
import { toastError } from "../ui/toasts";

interface ConfirmProps {
  title: string;
  /** The word on the button. */
  action: string;
  act: () => void | Promise<unknown>;
  onClose: () => void;
  children: ComponentChildren;
}

export function Confirm(props: ConfirmProps) {
  const [isBusy, setBusy] = useState(false);
  const act = async () => {
    setBusy(true);
    try {
      await props.act();
      props.onClose();
    } catch (error) {
      toastError(error);
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose} class="look-confirm">
      <div class="look-panel">
        <h2>{props.title}</h2>
        <p>{props.children}</p>
        <div class="row wrap">
          <button class="button danger" disabled={isBusy} onClick={() => void act()}>
            {props.action}
          </button>
          <button class="button" onClick={props.onClose}>
            Cancel
          </button>
        </div>
      </div>
    </Dialog>
  );
}
