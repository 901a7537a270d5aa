/** One session: what it is, its conversation, what it asks, and where one talks to it. */

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { QuestionDock } from "../questions/question-dock";
import { Conversation } from "../state/conversation";
import { Composer } from "../steering/composer";
import { useKeys } from "../ui/keys";
import { toastError } from "../ui/toasts";
import { domId } from "./item-card";
import { ItemList } from "./item-list";
import { jump } from "./jumps";
import { outlineOf } from "./outline";
import { RawDialog } from "./raw-dialog";
import type { ScrollKeeper } from "./scroll-keeper";
import { SearchBar } from "./search-bar";
import { SessionHead } from "./session-head";
import { followStatus, refreshStatus } from "./session-status";
import { TimelinePanel } from "./timeline-panel";

export function SessionView(props: { id: string; item?: string | undefined }) {
  const { id, item } = props;
  const view = useMemo(() => new View(id), [id]);
  useEffect(() => () => view.conversation.close(), [view]);
  useEffect(() => followStatus(id), [id]);
  useEffect(() => void view.show(item).catch(toastError), [view, item]);
  useEffect(() => view.conversation.arrivals.subscribe(() => refreshStatus(id)), [view]);
  useKeys("Conversation", [
    { press: "[", does: "To the prompt before", act: () => void view.jump("prompt", -1) },
    { press: "]", does: "To the next prompt", act: () => void view.jump("prompt", 1) },
    { press: "n", does: "To the next question", act: () => void view.jump("question", 1) },
    { press: "/", does: "Search in the conversation", act: () => view.search() },
    { press: "t", does: "Show the timeline", act: () => (view.isTimed.value = !view.isTimed.value) },
    { press: "G", does: "To the end of the conversation", act: () => void view.keeper?.toEnd().catch(toastError) },
  ]);
  return (
    <div class="session">
      <SessionHead
        id={id}
        onSearch={() => (view.isSearching.value = !view.isSearching.value)}
        onTimeline={() => (view.isTimed.value = !view.isTimed.value)}
      />
      {view.isTimed.value && <TimelinePanel conversation={view.conversation} />}
      {view.isSearching.value && (
        <SearchBar
          conversation={view.conversation}
          onFound={(found) => view.show(found)}
          onClose={() => (view.isSearching.value = false)}
        />
      )}
      <div class="session-middle">
        <ItemList conversation={view.conversation} keep={view.keep} />
        <ToEnd view={view} />
      </div>
      <QuestionDock sessionId={id} />
      <Composer sessionId={id} />
      <RawDialog />
    </div>
  );
}

/** What the parts of the view share. */
class View {
  readonly conversation: Conversation;
  readonly isSearching = signal(false);
  readonly isTimed = signal(false);
  readonly scrolling = signal<ScrollKeeper | null>(null);

  constructor(id: string) {
    this.conversation = new Conversation(id);
  }

  get keeper(): ScrollKeeper | null {
    return this.scrolling.peek();
  }

  readonly keep = (keeper: ScrollKeeper | null): void => {
    this.scrolling.value = keeper;
  };

  /** Open the conversation at its end, or around an item. */
  async show(item: string | undefined): Promise<void> {
    const { conversation } = this;
    if (item && !conversation.item(item)) await conversation.open(item);
    else if (!conversation.loaded.peek()) await conversation.open();
    if (item && conversation.error.peek()) {
      // A link to an item that is not there any more still opens the session.
      toastError(conversation.error.peek());
      conversation.error.value = null;
      await conversation.open();
    }
    if (item && conversation.item(item)) this.toItem(item);
  }

  toItem(id: string): void {
    const outline = outlineOf(this.conversation);
    outline.reveal(id);
    outline.marked.value = id;
    this.keeper?.toElement(() => document.getElementById(domId(id)));
  }

  search(): void {
    this.isSearching.value = true;
    document.querySelector<HTMLInputElement>(".search-bar input")?.select();
  }

  jump(kind: "prompt" | "question", step: 1 | -1): Promise<void> {
    return jump(this.conversation, kind, step, (id) => this.toItem(id)).catch(toastError);
  }
}

function ToEnd(props: { view: View }) {
  const keeper = props.view.scrolling.value;
  if (!keeper || keeper.atEnd.value) return null;
  const fresh = props.view.conversation.arrivals.value - keeper.seen.value;
  return (
    <button type="button" class="to-end button" onClick={() => void keeper.toEnd().catch(toastError)}>
      <span aria-hidden="true">↓</span> {fresh > 0 ? `${fresh} new` : "To the end"}
    </button>
  );
}
