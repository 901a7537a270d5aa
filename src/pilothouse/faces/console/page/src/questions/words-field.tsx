/** A field for words that go with an answer. Enter sends them where there is a keyboard, shift and Enter begins a line, Escape leaves. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { isToSend } from "../ui/typing";
import { leaveOnEscape } from "./card-keys";

interface WordsFieldProps {
  label: string;
  value: string;
  change: (value: string) => void;
  send: () => void;
  leave: () => void;
  disabled: boolean;
  placeholder?: string;
  /** Take the focus: a person has just asked for the field. */
  takesFocus: boolean;
  onPaste?: (event: ClipboardEvent) => void;
  /** The buttons below it. */
  children: ComponentChildren;
}

export function WordsField(props: WordsFieldProps) {
  const id = useId();
  const own = useRef<HTMLTextAreaElement>(null);
  const leave = leaveOnEscape(props.leave);
  useEffect(() => {
    if (props.takesFocus) own.current?.focus();
  }, []);
  return (
    <div class="question-panel">
      <label for={id}>{props.label}</label>
      <textarea
        id={id}
        ref={own}
        class="field"
        rows={2}
        value={props.value}
        placeholder={props.placeholder}
        readOnly={props.disabled}
        onInput={(event) => props.change(event.currentTarget.value)}
        onPaste={props.onPaste}
        onKeyDown={(event) => {
          leave(event);
          if (!isToSend(event)) return;
          event.preventDefault();
          props.send();
        }}
      />
      <div class="row wrap">{props.children}</div>
    </div>
  );
}
