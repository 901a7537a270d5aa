/** A button that answers, with the key that does the same. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { singleKeys } from "../ui/keys";

interface AnswerButtonProps {
  children: ComponentChildren;
  act: () => void;
  press?: string | undefined;
  /** Its key does something only where the card is current. */
  isCurrent: boolean;
  class?: string;
  disabled?: boolean;
  isOpen?: boolean;
  /** Take the focus: what it had opened is closed. */
  takesFocus?: boolean;
}

export function AnswerButton(props: AnswerButtonProps) {
  const own = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (props.takesFocus) own.current?.focus();
  }, []);
  const isKey = props.isCurrent && props.press && (props.press.length > 1 || singleKeys.value);
  return (
    <button
      ref={own}
      type="button"
      class={`button ${props.class ?? ""}`}
      disabled={props.disabled}
      aria-expanded={props.isOpen}
      aria-keyshortcuts={isKey && props.press ? shortcut(props.press) : undefined}
      onClick={props.act}
    >
      {props.children}
      {isKey && <kbd aria-hidden="true">{props.press}</kbd>}
    </button>
  );
}

function shortcut(press: string): string {
  return /^[A-Z]$/.test(press) ? `Shift+${press}` : press;
}
