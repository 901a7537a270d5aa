/** Search in the whole conversation: the server finds, and the item is opened wherever it is. */

import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { get, part } from "../api/http";
import type { ConversationPage, Hit } from "../api/types";
import type { Conversation } from "../state/conversation";
import { dateTime } from "../ui/time";
import { toastError } from "../ui/toasts";
import { markHits, unmarkHits } from "./hit-marks";

const AFTER_MS = 200;
const PAGE = 100;

interface SearchProps {
  conversation: Conversation;
  /** Show an item, wherever it is. */
  onFound: (id: string) => Promise<void>;
  onClose: () => void;
}

export function SearchBar(props: SearchProps) {
  const { conversation } = props;
  const search = useMemo(() => new Search(conversation.sessionId), [conversation]);
  const field = useRef<HTMLInputElement>(null);
  const hits = search.hits.value;
  const words = search.words.value;
  const at = search.at.value;
  useEffect(() => field.current?.focus(), []);
  useEffect(() => () => search.stop(), [search]);
  const mark = () => markHits(words, hits.map((hit) => hit.id));
  useEffect(() => {
    // After the cards are drawn: marks are ranges of what is on the page.
    const frame = requestAnimationFrame(mark);
    return () => cancelAnimationFrame(frame);
  }, [words, hits, at, conversation.ids.value]);
  useEffect(() => unmarkHits, []);
  const go = async (index: number) => {
    const hit = await search.to(index);
    if (!hit) return;
    await props.onFound(hit.id);
    field.current?.focus();
    requestAnimationFrame(() => requestAnimationFrame(mark));
  };
  const step = (by: 1 | -1) => void go(search.at.peek() + by).catch(toastError);
  return (
    <search class="search-part">
      <div class="search-bar">
        <label class="grow">
          <span class="unseen">Search in the conversation</span>
          <input
            ref={field}
            class="field"
            type="search"
            placeholder="Search in the conversation"
            value={words}
            onInput={(event) => search.look(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
              else if (event.key === "Escape") props.onClose();
              else return;
              event.preventDefault();
              event.stopPropagation();
            }}
          />
        </label>
        <span class="small quiet" role="status">
          {search.told.value}
        </span>
        <button type="button" class="button" disabled={!hits.length} onClick={() => step(1)} aria-label="Earlier hit">
          ↑
        </button>
        <button type="button" class="button" disabled={at <= 0} onClick={() => step(-1)} aria-label="Later hit">
          ↓
        </button>
        <button type="button" class="button plain" onClick={props.onClose} aria-label="Close the search">
          ✕
        </button>
      </div>
      {hits.length > 0 && (
        <ol class="hits" aria-label="Hits, the newest first">
          {hits.map((hit, index) => (
            <HitLine key={hit.id} hit={hit} words={words} isChosen={index === at} choose={() => void go(index).catch(toastError)} />
          ))}
          {search.hasMore.value && (
            <li>
              <button type="button" class="hit more" onClick={() => void search.further().catch(toastError)}>
                Earlier hits
              </button>
            </li>
          )}
        </ol>
      )}
    </search>
  );
}

const KINDS: Record<string, string> = {
  prompt: "Prompt",
  text: "Text",
  thinking: "Thinking",
  tool: "Tool",
  question: "Question",
  turn: "Turn",
  compaction: "Summary",
};

function HitLine(props: { hit: Hit; words: string; isChosen: boolean; choose: () => void }) {
  const { hit, isChosen } = props;
  const line = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isChosen) line.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  return (
    <li ref={line}>
      <button type="button" class="hit" aria-current={isChosen} onClick={props.choose}>
        <span class="hit-kind">{KINDS[hit.kind] ?? "Event"}</span>
        <span class="cut grow">
          <Marked text={hit.text} words={props.words.trim()} />
        </span>
        {!!hit.at && <time class="hit-time">{dateTime(hit.at)}</time>}
      </button>
    </li>
  );
}

/** The piece of text with the first place marked. */
function Marked(props: { text: string; words: string }) {
  const { text, words } = props;
  const at = text.toLowerCase().indexOf(words.toLowerCase());
  if (at < 0) return <>{text}</>;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + words.length)}</mark>
      {text.slice(at + words.length)}
    </>
  );
}

class Search {
  readonly words = signal("");
  /** The newest first. */
  readonly hits = signal<readonly Hit[]>([]);
  readonly hasMore = signal(false);
  /** Which one is shown; -1: none yet. */
  readonly at = signal(-1);
  /** What came of it, in words. */
  readonly told = signal("");

  private timer = 0;
  private abort = new AbortController();
  private reading: Promise<void> | null = null;

  constructor(private readonly sessionId: string) {}

  look(words: string): void {
    this.stop();
    this.words.value = words;
    this.hits.value = [];
    this.hasMore.value = false;
    this.at.value = -1;
    this.told.value = words.trim() ? "Searching…" : "";
    if (words.trim()) this.timer = window.setTimeout(() => void this.further().catch(toastError), AFTER_MS);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.abort.abort();
    this.abort = new AbortController();
    this.reading = null;
  }

  /** Go to a hit, and on to those before the ones that are here. */
  async to(index: number): Promise<Hit | null> {
    if (index >= this.hits.peek().length && (this.hasMore.peek() || !this.hits.peek().length)) await this.further();
    const hits = this.hits.peek();
    if (!hits.length) return null;
    this.at.value = Math.max(0, Math.min(index, hits.length - 1));
    this.tell();
    return hits[this.at.peek()]!;
  }

  /** Read on; whoever asks meanwhile waits for the same. */
  further(): Promise<void> {
    const reading = (this.reading ??= this.readOn().finally(() => {
      if (this.reading === reading) this.reading = null;
    }));
    return reading;
  }

  private async readOn(): Promise<void> {
    clearTimeout(this.timer);
    const { signal } = this.abort;
    const search = this.words.peek().trim();
    if (!search) return;
    const before = this.hits.peek().at(-1)?.id;
    try {
      const path = `/api/sessions/${part(this.sessionId)}/conversation`;
      const page = await get<ConversationPage>(path, { search, before, limit: PAGE }, signal);
      if (signal.aborted) return;
      this.hits.value = [...this.hits.peek(), ...(page.hits ?? [])];
      this.hasMore.value = page.earlier ?? false;
      this.tell();
    } catch (error) {
      if (signal.aborted) return;
      this.told.value = "";
      throw error;
    }
  }

  private tell(): void {
    const count = this.hits.peek().length;
    const more = this.hasMore.peek() ? "+" : "";
    const at = this.at.peek();
    if (!count) this.told.value = "No item has this";
    else if (at < 0) this.told.value = `${count}${more} ${count === 1 ? "item" : "items"}`;
    else this.told.value = `${at + 1} of ${count}${more}`;
  }
}
