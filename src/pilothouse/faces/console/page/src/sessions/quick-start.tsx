/** A session from one line: what to do, in the directory that was used last. */

import { computed, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { Refusal } from "../api/http";
import { go, link } from "../routes";
import { kept } from "../state/kept";
import { baseName } from "../state/rows";
import { draftOf, writeDraft } from "../steering/drafts";
import { randomId } from "../ui/ids";
import { toastError } from "../ui/toasts";
import { DirectoryField } from "./directory-field";
import { begunChoices, keepChoices, lastChoices, NEW_DRAFT, recentDirectories, startSession, wholePath } from "./starting";

const { now: prompt, write } = kept("pilothouse.quick-prompt", "");
/** Somebody has begun to type in the form, and is still in it. */
const isTyped = signal(false);

/** Something stands in the form: it stays where it is, whatever else comes. */
export const isBegun = computed(() => isTyped.value || prompt.value.trim() !== "");

/** What was typed here goes on in the form with all options. */
function moveToForm(cwd: string): void {
  const words = [draftOf(NEW_DRAFT).peek(), prompt.peek()].filter((each) => each.trim());
  writeDraft(NEW_DRAFT, words.join("\n\n"));
  write("");
  isTyped.value = false;
  if (cwd.trim()) begunChoices.write({ ...begunChoices.now.peek(), cwd });
}

export function QuickStart(props: { autofocus?: boolean }) {
  const [cwd, setCwd] = useState(() => lastChoices().cwd || recentDirectories()[0] || "");
  const [key, setKey] = useState(randomId);
  const [isBusy, setBusy] = useState(false);
  const first = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (props.autofocus) first.current?.focus();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    const words = prompt.peek();
    if (!words.trim() || !cwd.trim() || isBusy) return;
    setBusy(true);
    try {
      const path = await wholePath(cwd);
      const started = await startSession({ prompt: words, cwd: path, key });
      keepChoices({ ...lastChoices(), cwd: path });
      // What was typed meanwhile is another prompt.
      if (prompt.peek() === words) write("");
      isTyped.value = false;
      go({ view: "session", id: started.session_id });
    } catch (error) {
      toastError(error);
      // Without an answer it may have been started: the same again is the same session.
      if (error instanceof Refusal) setKey(randomId());
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      class="quick-start card"
      onSubmit={(event) => void submit(event)}
      onInput={() => (isTyped.value = true)}
      onFocusOut={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) isTyped.value = false;
      }}
    >
      <label class="unseen" for="quick-prompt">
        What to do
      </label>
      <textarea
        id="quick-prompt"
        ref={first}
        rows={3}
        placeholder="What is to be done?"
        value={prompt.value}
        onInput={(event) => write(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && void submit(event)}
      />
      <div class="row wrap">
        <span class="grow">
          <DirectoryField id="quick-directory" label="Directory" value={cwd} onChange={setCwd} isLabelUnseen />
        </span>
        <a class="button plain" href={link({ view: "new" })} onClick={() => moveToForm(cwd)}>
          More options
        </a>
        <button class="button main" disabled={isBusy || !prompt.value.trim() || !cwd.trim()}>
          {isBusy ? "Starting…" : cwd.trim() ? `Start in ${baseName(cwd.trim())}` : "Start"} <kbd>Ctrl Enter</kbd>
        </button>
      </div>
    </form>
  );
}
