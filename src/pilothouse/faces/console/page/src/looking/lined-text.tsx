/** A text field for a file: monospaced, with the numbers of its lines. */

import type { RefObject } from "preact";
import { useRef } from "preact/hooks";

interface LinedTextProps {
  label: string;
  value: string;
  field: RefObject<HTMLTextAreaElement | null>;
  onInput: (value: string) => void;
}

export function LinedText(props: LinedTextProps) {
  const gutter = useRef<HTMLPreElement>(null);
  const count = props.value.split("\n").length;
  const numbers = Array.from({ length: count }, (_each, at) => at + 1).join("\n");
  return (
    <div class="look-lined">
      <pre class="look-lined-numbers" ref={gutter} aria-hidden="true">
        {numbers}
      </pre>
      <textarea
        ref={props.field}
        class="look-lined-text"
        aria-label={props.label}
        wrap="off"
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        rows={Math.min(Math.max(count + 1, 14), 32)}
        value={props.value}
        onInput={(event) => props.onInput(event.currentTarget.value)}
        onScroll={(event) => gutter.current && (gutter.current.scrollTop = event.currentTarget.scrollTop)}
      />
    </div>
  );
}

/** Select lines, from 0, and bring them into view. */
export function selectLines(field: HTMLTextAreaElement | null, first: number, count: number): void {
  if (!field) return;
  const lines = field.value.split("\n");
  const start = lines.slice(0, first).reduce((sum, line) => sum + line.length + 1, 0);
  const end = start + lines.slice(first, first + count).join("\n").length;
  field.focus();
  field.setSelectionRange(start, end);
  field.scrollTop = (field.scrollHeight / lines.length) * Math.max(0, first - 3);
}
