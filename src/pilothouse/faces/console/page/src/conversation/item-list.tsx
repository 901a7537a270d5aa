/** The items of a conversation in a list that scrolls. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { isPassing } from "../api/http";
import type { Conversation } from "../state/conversation";
import { ItemCard } from "./item-card";
import { outlineOf } from "./outline";
import { ScrollKeeper } from "./scroll-keeper";

export function ItemList(props: { conversation: Conversation; keep: (keeper: ScrollKeeper | null) => void }) {
  const { conversation } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const keeper = useRef<ScrollKeeper | null>(null);
  const ids = outlineOf(conversation).top.value;
  useLayoutEffect(() => {
    const made = new ScrollKeeper(scroller.current!, list.current!, conversation);
    keeper.current = made;
    props.keep(made);
    return () => {
      made.close();
      props.keep(null);
    };
  }, [conversation]);
  useLayoutEffect(() => keeper.current?.drawn(), [ids]);
  return (
    <div class="scroller" ref={scroller} tabIndex={-1}>
      <Earlier conversation={conversation} />
      <div class="items" ref={list} role="log" aria-label="Conversation" aria-live="off">
        {ids.map((id) => {
          const item = conversation.item(id);
          return item && <ItemCard key={id} item={item} conversation={conversation} />;
        })}
      </div>
      <Empty conversation={conversation} />
    </div>
  );
}

function Earlier(props: { conversation: Conversation }) {
  const { earlier, loaded, ids } = props.conversation;
  if (!loaded.value || !ids.value.length) return null;
  return <p class="list-edge">{earlier.value ? "Earlier items are loading…" : "The conversation begins here."}</p>;
}

function Empty(props: { conversation: Conversation }) {
  const { loaded, ids, error } = props.conversation;
  if (error.value) {
    return (
      <p class="list-edge bad" role="status">
        {error.value.message}
        {isPassing(error.value) && ". Trying again…"}
      </p>
    );
  }
  if (!loaded.value) return <p class="list-edge">Loading the conversation…</p>;
  return ids.value.length ? null : <p class="list-edge">Nothing was said yet.</p>;
}
