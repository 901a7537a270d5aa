/** What is said: prompts, the model's text, and what it thinks. */

import { useState } from "preact/hooks";
import type { PromptItem, TextItem, ThinkingItem } from "../api/types";
import { firstLines, MoreLines } from "../ui/code";
import { Markdown } from "../ui/markdown";
import { duration } from "../ui/time";
import type { CardProps } from "./item-card";
import { LeftOut } from "./output";
import { outlineOf } from "./outline";
import { Pictures } from "./pictures";

const SHOWN_LINES = 20;

// Prompts

const SPEAKERS: Record<string, string> = { person: "You", engine: "Pilothouse", cli: "Claude Code" };

export function Prompt(props: CardProps) {
  const item = props.item.value as PromptItem;
  const state = item.state ?? "taken";
  const done = notificationOf(item.text ?? "");
  if (done) return <p class="happening">{done}</p>;
  return (
    <div class="prompt" data-state={state} data-by={item.by ?? "person"}>
      <div class="prompt-head">
        <strong>{SPEAKERS[item.by ?? "person"] ?? item.by}</strong>
        <PromptState item={item} />
      </div>
      <FoldedText text={item.text ?? ""} />
      <LeftOut cut={item.cut} id={item.id} sessionId={props.conversation.sessionId} />
      {!!item.images && <Pictures sessionId={props.conversation.sessionId} id={item.id} count={item.images} />}
    </div>
  );
}

function PromptState(props: { item: PromptItem }) {
  const { state = "taken", because, priority } = props.item;
  if (state === "taken") return null;
  const words = {
    queued: priority ? `Queued: ${priority}` : "Queued",
    sent: "Sent, not taken up yet",
    withdrawn: because ? `Withdrawn: ${because}` : "Withdrawn",
  }[state];
  return <span class={state === "withdrawn" ? "badge" : "badge busy"}>{words}</span>;
}

function FoldedText(props: { text: string }) {
  const [isOpen, open] = useState(false);
  const { kept, hidden } = firstLines(props.text, isOpen ? Infinity : SHOWN_LINES);
  return (
    <>
      <p class="said">{kept}</p>
      {hidden > 0 && <MoreLines hidden={hidden} open={() => open(true)} />}
    </>
  );
}

/** What the CLI says to the model when a task in the background has ended, in words for people. */
function notificationOf(text: string): string | null {
  if (!text.startsWith("<task-notification>")) return null;
  const member = (name: string) => new RegExp(`<${name}>([\\s\\S]*?)</${name}>`).exec(text)?.[1]?.trim();
  const summary = member("summary");
  return `A task in the background ended (${member("status") ?? "no state"})${summary ? `: ${summary}` : "."}`;
}

// Text

const TEXT_STATES: Partial<Record<NonNullable<TextItem["state"]>, string>> = {
  aborted: "Cut off here",
  retracted: "Taken back",
};

export function Text(props: CardProps) {
  const { text = "", state = "done", error } = props.item.value as TextItem;
  const note = error && error !== "unknown" ? `API error: ${error}` : TEXT_STATES[state];
  return (
    <div class={error ? "text bad" : "text"} data-state={state}>
      {state === "streaming" && !text && <span class="caret" role="img" aria-label="Writing" />}
      <Markdown level={2} text={text} />
      {note && <span class={error ? "badge bad" : "badge"}>{note}</span>}
    </div>
  );
}

// Thinking

export function Thinking(props: CardProps) {
  const item = props.item.value as ThinkingItem;
  const opening = outlineOf(props.conversation).opening(item.id);
  const { text = "", state = "done" } = item;
  const isOpen = opening.value ?? false;
  const words = state === "streaming" ? "Thinking…" : thoughtWords(item);
  if (!text) return <p class="thinking-head">{words}</p>;
  return (
    <div class="thinking" data-state={state}>
      <button type="button" class="thinking-head fold" aria-expanded={isOpen} onClick={() => (opening.value = !isOpen)}>
        {words}
      </button>
      {isOpen && <Markdown level={2} text={text} />}
    </div>
  );
}

function thoughtWords(item: ThinkingItem): string {
  const length = item.duration_ms ? `Thought for ${duration(item.duration_ms)}` : "Thought";
  const note = item.state ? TEXT_STATES[item.state] : undefined;
  return note ? `${length} (${note.toLowerCase()})` : length;
}
