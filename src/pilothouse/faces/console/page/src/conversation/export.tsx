/** Takes a conversation out: all of it, read page by page, as Markdown or as JSON; or its wire, as a cassette. */

import { useState } from "preact/hooks";
import { download, get, part } from "../api/http";
import type { ConversationPage } from "../api/types";
import type { Item } from "../state/conversation";
import { Menu } from "../ui/menu";
import { dateTime } from "../ui/time";
import { toast, toastError } from "../ui/toasts";
import { markdownOf } from "./item-text";
import { leftOutOf, readCut, wholeOf, type Completed } from "./whole-text";

const PAGE = 1000;

type Form = "md" | "json";

export function ExportMenu(props: { id: string; title: string }) {
  const [state, tell] = useState<string | null>(null);
  const run = async (work: () => Promise<void>) => {
    tell("Reading");
    try {
      await work();
    } catch (error) {
      toastError(error);
    } finally {
      tell(null);
    }
  };
  const toRead = async (form: Form) => {
    const items = await allItems(props.id, (count) => tell(`Reading, ${count.toLocaleString()} items`));
    const cut = await readCut(props.id, items, (count) => tell(`Reading, ${count.toLocaleString()} long texts`));
    const text = form === "json" ? asJson(props.id, items, cut) : asMarkdown(props.title, items, cut);
    save(new Blob([text], { type: TYPES[form] }), fileName(props.title, form));
    toast(`${items.length.toLocaleString()} items exported`);
  };
  const toReplay = async () => {
    save(await download(`/api/sessions/${part(props.id)}/cassette`), fileName(props.title, "cassette.jsonl"));
    toast("The cassette is exported. Its first line says what it does not have.");
  };
  return (
    <Menu
      label="Export the conversation"
      align="right"
      disabled={state !== null}
      face={state === null ? <Arrow /> : <span class="small">{state}</span>}
      items={() => [
        { name: "Export as Markdown", note: "To read and to share", act: () => void run(() => toRead("md")) },
        { name: "Export as JSON", note: "Every item with all it has", act: () => void run(() => toRead("json")) },
        { name: "Export as a cassette", note: "For the simulator to replay", act: () => void run(toReplay) },
      ]}
    />
  );
}

function Arrow() {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d="M8 2.5v7.5M5 7.2 8 10.2l3-3M3 13.2h10" />
    </svg>
  );
}

async function allItems(id: string, tell: (count: number) => void): Promise<Item[]> {
  const pages: Item[][] = [];
  let count = 0;
  let before: string | undefined;
  for (;;) {
    const page = await get<ConversationPage>(`/api/sessions/${part(id)}/conversation`, { limit: PAGE, before });
    pages.unshift(page.items);
    tell((count += page.items.length));
    if (!page.earlier || !page.items.length) return pages.flat();
    before = page.items[0]!.id;
  }
}

const SPEAKERS: Partial<Record<Item["kind"], string>> = {
  prompt: "Prompt",
  text: "Claude",
  thinking: "Thinking",
  tool: "Tool",
};

function asMarkdown(title: string, items: readonly Item[], cut: ReadonlyMap<string, Completed>): string {
  const parts = items.map((item) => {
    const read = cut.get(item.id);
    const whole = (read && wholeOf(read)) || item;
    const missing = leftOutOf(whole);
    const words = markdownOf(whole) + (missing ? `\n\n(${missing.toLocaleString()} more are not in this export)` : "");
    const name = SPEAKERS[item.kind];
    if (!name) return `> ${words.replaceAll("\n", "\n> ")}`;
    return `## ${name}${item.agent ? " (subagent)" : ""}${item.at ? `, ${dateTime(item.at)}` : ""}\n\n${words}`;
  });
  return [`# ${title}`, ...parts].join("\n\n") + "\n";
}

/** An item that is cut comes with the lines that have all of it. */
function asJson(id: string, items: readonly Item[], cut: ReadonlyMap<string, Completed>): string {
  const whole = items.map((item) => (cut.has(item.id) ? { ...item, source: cut.get(item.id)!.source } : item));
  return JSON.stringify({ session_id: id, items: whole }, null, 1);
}

function fileName(title: string, form: string): string {
  const words = title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60);
  return `${words || "session"}.${form}`;
}

const TYPES: Record<Form, string> = { json: "application/json", md: "text/markdown" };

function save(content: Blob, name: string): void {
  const address = URL.createObjectURL(content);
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
