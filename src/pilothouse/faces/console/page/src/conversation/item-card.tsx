/** One item of a conversation, in the form that its kind has, with its time and what can be done with it. */

import { useComputed, type Signal } from "@preact/signals";
import type { JSX } from "preact";
import { link } from "../routes";
import type { Conversation, Item } from "../state/conversation";
import { forkSession } from "../steering/fork-dialog";
import { CopyButton } from "../ui/copy";
import { clockTime, dateTime } from "../ui/time";
import { CompactionLine, FilesLine, GapLine, HookLine, LimitLine, Notice, RetryLine, SignInLine } from "./happenings";
import { markdownOf } from "./item-text";
import { outlineOf } from "./outline";
import { QuestionLine } from "./question-line";
import { showRaw } from "./raw-dialog";
import { Prompt, Text, Thinking } from "./speech";
import { ToolCard } from "./tool-card";
import { TurnLine } from "./turn-line";

export interface CardProps {
  item: Signal<Item>;
  conversation: Conversation;
}

export function ItemCard(props: CardProps) {
  const { item, conversation } = props;
  // These stay what they are: the card draws anew what changes, and this frame does not.
  const { id, kind, at, agent } = item.peek();
  const isMarked = useComputed(() => outlineOf(conversation).marked.value === id).value;
  const isLost = Boolean(agent) && !conversation.item(agent!);
  return (
    <article class={isMarked ? "item marked" : "item"} id={domId(id)} data-kind={kind} data-item={id} tabIndex={-1}>
      {isLost && <span class="badge">From a subagent</span>}
      {bodyOf(kind, props)}
      <ItemActions item={item} conversation={conversation} at={at ?? 0} id={id} />
    </article>
  );
}

/** Where an item stands in the page. */
export function domId(id: string): string {
  return `item:${id}`;
}

function bodyOf(kind: Item["kind"], props: CardProps): JSX.Element | null {
  switch (kind) {
    case "prompt":
      return <Prompt {...props} />;
    case "text":
      return <Text {...props} />;
    case "thinking":
      return <Thinking {...props} />;
    case "tool":
      return <ToolCard {...props} />;
    case "question":
      return <QuestionLine {...props} />;
    case "turn":
      return <TurnLine {...props} />;
    case "compaction":
      return <CompactionLine {...props} />;
    case "retry":
      return <RetryLine {...props} />;
    case "limit":
      return <LimitLine {...props} />;
    case "sign_in":
      return <SignInLine {...props} />;
    case "hook":
      return <HookLine {...props} />;
    case "files":
      return <FilesLine {...props} />;
    case "notice":
      return <Notice {...props} />;
    case "gap":
      return <GapLine {...props} />;
    default:
      return <p class="happening">The server has an item here that this page does not know. Load the page again.</p>;
  }
}

function ItemActions(props: CardProps & { id: string; at: number }) {
  const { item, conversation, id, at } = props;
  return (
    <div class="item-actions">
      <a href={link({ view: "session", id: conversation.sessionId, item: id })} title="Link to this item">
        {at ? (
          <time dateTime={new Date(at).toISOString()} title={dateTime(at)}>
            {clockTime(at)}
          </time>
        ) : (
          "Link"
        )}
      </a>
      <CopyButton text={() => markdownOf(item.peek())} class="plain-action" />
      <button
        type="button"
        class="plain-action"
        onClick={() => showRaw(conversation.sessionId, id)}
        title="The lines that this was made of"
      >
        Raw
      </button>
      <ForkAction {...props} />
    </div>
  );
}

/** A prompt is where another way can be taken. */
function ForkAction(props: CardProps) {
  const item = props.item.peek();
  if (item.kind !== "prompt" || item.by === "cli") return null;
  const before = { id: item.id, text: item.text ?? "" };
  return (
    <button
      type="button"
      class="plain-action"
      onClick={() => forkSession(props.conversation.sessionId, before)}
      title="A new session that begins with what was said before this"
    >
      Fork from here
    </button>
  );
}
