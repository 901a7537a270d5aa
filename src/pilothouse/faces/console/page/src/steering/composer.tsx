/** Where a person talks to a session: text, images, commands; what waits in the queue; and the way to interrupt. */

import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Status } from "../api/types";
import { Menu } from "../ui/menu";
import { useKeys } from "../ui/keys";
import { toastError } from "../ui/toasts";
import { isCoarse, isConverting, isToSend } from "../ui/typing";
import { Suggestions, useCompletion, type Suggestion } from "./completion";
import { draftOf, giveBack, setPictures, writeDraft } from "./drafts";
import { loadSaid, saidBefore } from "./history";
import { contentOf, type Content } from "./images";
import { useInterrupt } from "./interrupt";
import { sendLeftovers, sendMessage, type Priority } from "./outbox";
import { AttachButton, Pictures, usePictures } from "./pictures";
import { Queue } from "./queue";
import { useStatus } from "./session-status";

export function Composer(props: { sessionId: string }) {
  const { sessionId } = props;
  const status = useStatus(sessionId).value;
  return <Field key={sessionId} sessionId={sessionId} status={status} />;
}

function Field(props: { sessionId: string; status: Status | null }) {
  const { sessionId, status } = props;
  const field = useRef<HTMLTextAreaElement>(null);
  const listId = useId();
  const text = draftOf(sessionId).value;
  const [caret, setCaret] = useState(text.length);
  const { pictures, isReading, addFiles, paste, dropPicture } = usePictures(sessionId);
  const [isOver, setOver] = useState(false);
  const back = useRef<number | null>(null);
  const completion = useCompletion(sessionId, text, caret, status?.live ?? false);
  const interrupt = useInterrupt(sessionId, status, field);
  const blocked = status ? blockOf(status) : null;
  useEffect(() => void sendLeftovers(sessionId), []);

  const write = (next: string, at = next.length) => {
    writeDraft(sessionId, next);
    setCaret(at);
    requestAnimationFrame(() => field.current?.setSelectionRange(at, at));
  };
  const isEmpty = !text.trim() && !pictures.length;
  const mayNotSend = blocked !== null || isEmpty || isReading;
  const submit = (priority: Priority | null = null) => {
    if (mayNotSend) return;
    sendMessage(sessionId, { content: contentOf(text, pictures), priority });
    back.current = null;
    setPictures(sessionId, []);
    write("");
  };
  const take = (suggestion: Suggestion) => {
    const next = completion.taken(suggestion);
    write(next.text, next.caret);
  };
  const recall = (by: -1 | 1): boolean => {
    const said = saidBefore(sessionId);
    if (!said) {
      if (by === 1 || text) return false;
      loadSaid(sessionId).then(() => latestRecall.current(-1), toastError);
      return true;
    }
    const at = back.current ?? said.length;
    if (text !== (back.current === null ? "" : said[at])) return false;
    const next = at + by;
    if (next < 0 || (by === 1 && back.current === null)) return false;
    back.current = next >= said.length ? null : next;
    write(said[next] ?? "");
    return true;
  };
  const latestRecall = useRef(recall);
  latestRecall.current = recall;
  useKeys("Message", [{ press: "m", does: "Write a message", act: () => field.current?.focus() }]);
  useLayoutEffect(() => {
    if (field.current) grow(field.current);
  }, [text]);

  const keyDown = (event: KeyboardEvent) => {
    if (isConverting(event)) return;
    const act = () => {
      event.preventDefault();
      event.stopPropagation();
    };
    const choice = completion.suggestions[completion.at];
    if (choice && completionKey(event, completion, () => take(choice))) return act();
    if (isToSend(event)) {
      act();
      submit();
    } else if (event.key === "ArrowUp" && !event.shiftKey && recall(-1)) act();
    else if (event.key === "ArrowDown" && !event.shiftKey && recall(1)) act();
  };
  const drop = (event: DragEvent) => {
    setOver(false);
    const files = [...(event.dataTransfer?.files ?? [])];
    // A text that is dropped is the browser's to put in.
    if (!files.length) return;
    event.preventDefault();
    void addFiles(files);
  };
  const takenBack = (content: Content) => {
    giveBack(sessionId, content);
    field.current?.focus();
  };

  return (
    <div class="composer">
      <Queue sessionId={sessionId} queued={status?.queued ?? []} onTakenBack={takenBack} />
      <div
        class={isOver ? "composer-box over" : "composer-box"}
        onDragOver={(event) => {
          if (!event.dataTransfer?.types.includes("Files")) return;
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
      >
        <Suggestions id={listId} completion={completion} onTake={take} />
        <Pictures pictures={pictures} isReading={isReading} onDrop={dropPicture} />
        <textarea
          ref={field}
          rows={1}
          aria-label="Message to the session"
          placeholder={blocked ? "" : "Message, / for commands, @ for files"}
          disabled={blocked !== null}
          value={text}
          aria-autocomplete="list"
          aria-controls={completion.suggestions.length ? listId : undefined}
          aria-activedescendant={completion.suggestions.length ? `${listId}-${completion.at}` : undefined}
          onInput={(event) => write(event.currentTarget.value, event.currentTarget.selectionStart)}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
          onKeyDown={keyDown}
          onPaste={paste}
        />
        <div class="row composer-tools">
          <AttachButton disabled={blocked !== null} onFiles={(files) => void addFiles(files)} />
          <span class="grow small quiet composer-note" role="status">
            {blocked ?? (status ? noteOf(status) : "")}
          </span>
          {interrupt.isPossible && (
            <button class="button danger" disabled={interrupt.isBusy} onClick={interrupt.act}>
              Interrupt {status?.state === "active" && <kbd>Esc</kbd>}
            </button>
          )}
          <SendButton
            disabled={mayNotSend}
            isBusy={isWorking(status)}
            onSend={submit}
          />
        </div>
      </div>
    </div>
  );
}

function isWorking(status: Status | null): boolean {
  return status?.state === "active" || status?.state === "awaiting_input";
}

/** Why nothing can be said to it, or null. */
function blockOf(status: Status): string | null {
  if (status.foreign) return "Its CLI was started elsewhere: it takes answers here, and messages once that CLI has ended.";
  if (status.resumable === false && !status.live)
    return "This session kept no transcript and its CLI has ended: nothing can go on with it.";
  return null;
}

/** What sending will do. */
function noteOf(status: Status): string {
  if (status.source === "transcript" && !status.live)
    return "Sending resumes the session here. End its claude in the terminal first, if one still runs.";
  if (status.state === "awaiting_input") return "It waits for an answer. A message is taken after that.";
  if (status.state === "active") return "It works. A message is taken into the running turn.";
  if (!status.live) return "Sending resumes the session.";
  return "";
}

function completionKey(event: KeyboardEvent, completion: ReturnType<typeof useCompletion>, take: () => void): boolean {
  if (event.key === "ArrowDown") completion.move(1);
  else if (event.key === "ArrowUp") completion.move(-1);
  else if (event.key === "Tab" || (event.key === "Enter" && !event.ctrlKey && !event.shiftKey && completion.isMeant)) take();
  else if (event.key === "Escape") completion.close();
  else return false;
  return true;
}

function grow(field: HTMLTextAreaElement): void {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

function SendButton(props: { disabled: boolean; isBusy: boolean; onSend: (priority?: Priority) => void }) {
  return (
    <span class="split">
      <button type="button" class="button main" disabled={props.disabled} onClick={() => props.onSend()}>
        Send {!isCoarse.matches && <kbd>Enter</kbd>}
      </button>
      {props.isBusy && (
        <Menu
          label="When to send"
          class="button main"
          align="right"
          disabled={props.disabled}
          face={<span class="down-mark" aria-hidden="true" />}
          items={() => [
            { name: "Send now", note: "It stops what it does, and takes the message at once", act: () => props.onSend("now") },
            { name: "Send next", note: "It takes the message into this turn, after the step at hand", act: () => props.onSend("next") },
            { name: "Send later", note: "It takes the message when this turn is over", act: () => props.onSend("later") },
          ]}
        />
      )}
    </span>
  );
}
