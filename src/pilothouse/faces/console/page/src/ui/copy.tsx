/** A button that puts a text on the clipboard and says that it did. */

import { useEffect, useState } from "preact/hooks";
import { toast } from "./toasts";

const SAID_MS = 1500;

export function CopyButton(props: { text: string | (() => string | Promise<string>); label?: string; class?: string }) {
  const [said, say] = useState(false);
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => say(false), SAID_MS);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    const text = typeof props.text === "string" ? props.text : await props.text();
    if (await copyText(text)) say(true);
    else toast("The browser does not let this page copy. Select the text and copy it yourself.", true);
  };
  return (
    <button type="button" class={props.class ?? "copy"} onClick={() => void copy()}>
      {said ? "Copied" : (props.label ?? "Copy")}
    </button>
  );
}

/** Put a text on the clipboard; false: the browser refused. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page that came over plain HTTP from another machine has no clipboard of this kind.
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  // Beside a window over the page nothing can be selected.
  (document.querySelector("dialog:modal") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}
