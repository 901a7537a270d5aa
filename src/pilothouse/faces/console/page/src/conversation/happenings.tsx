/** What happens around what is said: summaries, retries, limits, signing in, hooks, files, notices, gaps. */

import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type {
  CompactionItem,
  FilesItem,
  GapItem,
  HookItem,
  LimitItem,
  NoticeItem,
  RetryItem,
  SignInItem,
} from "../api/types";
import { Markdown } from "../ui/markdown";
import { amount, dateTime, duration, now, span } from "../ui/time";
import type { CardProps } from "./item-card";
import { LeftOut, Output } from "./output";
import { outlineOf } from "./outline";

type Tone = "bad" | "ask" | "busy" | "quiet";

/** One line, perhaps with more of it on demand. */
function Line(props: CardProps & { tone?: Tone; words: ComponentChildren; children?: ComponentChildren }) {
  const opening = outlineOf(props.conversation).opening(props.item.peek().id);
  const isOpen = opening.value ?? false;
  const tone = props.tone ?? "quiet";
  if (!props.children) return <p class={`happening ${tone}`}>{props.words}</p>;
  return (
    <div class={`happening ${tone}`}>
      <button type="button" class="fold" aria-expanded={isOpen} onClick={() => (opening.value = !isOpen)}>
        {props.words}
      </button>
      {isOpen && props.children}
    </div>
  );
}

const COMPACTION_TONES: Record<string, Tone> = { failed: "bad", running: "busy", done: "quiet" };

export function CompactionLine(props: CardProps) {
  const item = props.item.value as CompactionItem;
  const { state = "done" } = item;
  return (
    <div class="compaction" data-state={state}>
      <Line {...props} tone={COMPACTION_TONES[state]} words={compactionWords(item)}>
        {item.summary && <Markdown level={2} text={item.summary} />}
      </Line>
      <LeftOut cut={item.cut} id={item.id} sessionId={props.conversation.sessionId} />
    </div>
  );
}

function compactionWords(item: CompactionItem): string {
  if (item.state === "running") return "The conversation is being summarised…";
  if (item.state === "failed") return `The conversation could not be summarised${item.error ? `: ${item.error}` : "."}`;
  const how = item.trigger === "manual" ? "on request" : item.trigger === "auto" ? "because the context was full" : "";
  const before = item.tokens_before ? `${amount(item.tokens_before)} tokens` : "";
  const after = item.tokens_after ? ` to ${amount(item.tokens_after)}` : "";
  const size = before ? `, ${before}${after}` : "";
  const time = item.duration_ms ? `, ${duration(item.duration_ms)}` : "";
  return `Summarised up to here ${how}${size}${time}`.replace(" ,", ",");
}

export function RetryLine(props: CardProps) {
  const item = props.item.value as RetryItem;
  const isOver = item.state === "over";
  const status = item.status ? ` (${item.status})` : "";
  const count = `attempt ${item.attempt ?? 0} of ${item.max_retries ?? 0}`;
  const failed = `The API failed${status}${item.error ? `: ${item.error}` : ""}`;
  return (
    <Line
      {...props}
      tone={isOver ? "quiet" : "ask"}
      words={
        <>
          {isOver ? `${failed}, and was asked again: ${count}.` : `${failed}. Trying again, ${count}`}
          {!isOver && item.at && <Countdown to={item.at + (item.delay_ms ?? 0)} before=", in " />}
        </>
      }
    />
  );
}

export function LimitLine(props: CardProps) {
  const item = props.item.value as LimitItem;
  const isRejected = item.status === "rejected";
  const name = (item.limit ?? "rate limit").replaceAll("_", " ");
  const used = item.utilization != null ? ` ${Math.round(item.utilization * 100)}% used.` : "";
  const words = isRejected ? `The account's limit is reached (${name}).` : `Close to the account's limit (${name}).`;
  const isOpen = Boolean(item.resets_at && item.resets_at > now.peek());
  return (
    <Line
      {...props}
      tone={isRejected && isOpen ? "bad" : "ask"}
      words={
        <>
          {item.status === "allowed" ? `The account's limit (${name}) has room again.` : words}
          {used}
          {item.resets_at ? ` Resets ${dateTime(item.resets_at)}` : ""}
          {item.resets_at && isOpen ? <Countdown to={item.resets_at} before=", in " /> : null}
        </>
      }
    />
  );
}

function Countdown(props: { to: number; before: string }) {
  const left = props.to - now.value;
  return left > 0 ? <>{props.before + span(left)}</> : null;
}

export function SignInLine(props: CardProps) {
  const { state = "running", output = [], error } = props.item.value as SignInItem;
  const words = {
    running: "Claude Code is signing in…",
    done: "Claude Code has signed in.",
    failed: `Claude Code could not sign in${error ? `: ${error}` : "."}`,
  }[state];
  return (
    <>
      <Line {...props} tone={state === "failed" ? "bad" : state === "running" ? "ask" : "quiet"} words={words} />
      {state !== "done" && output.length > 0 && <Output text={output.join("\n")} label="Words about signing in" />}
    </>
  );
}

export function HookLine(props: CardProps) {
  const item = props.item.value as HookItem;
  const isBad = (item.exit_code ?? 0) !== 0 || /error|fail|block/.test(item.outcome ?? "");
  const what = item.name && item.name !== item.event ? `${item.event ?? ""} ${item.name}`.trim() : (item.event ?? "");
  const trouble = `${item.outcome || "failed"}, exit code ${item.exit_code ?? "unknown"}`;
  const how = item.state !== "done" ? "runs…" : isBad ? trouble : "done";
  return (
    <Line {...props} tone={isBad ? "bad" : item.state === "done" ? "quiet" : "busy"} words={`Hook ${what}: ${how}`}>
      {item.output && (
        <>
          <Output text={item.output} isBad={isBad} />
          <LeftOut cut={item.cut} id={item.id} sessionId={props.conversation.sessionId} />
        </>
      )}
    </Line>
  );
}

export function FilesLine(props: CardProps) {
  const { files = [], failed = {} } = props.item.value as FilesItem;
  const lost = Object.entries(failed);
  const words = [
    files.length ? `${files.length} ${files.length === 1 ? "file" : "files"} stored` : "",
    lost.length ? `${lost.length} could not be stored` : "",
  ].filter(Boolean);
  return (
    <Line {...props} tone={lost.length ? "bad" : "quiet"} words={words.join(", ")}>
      <ul class="file-list">
        {files.map((path) => (
          <li key={path}>{path}</li>
        ))}
        {lost.map(([path, why]) => (
          <li key={path} class="bad">
            {path}: {why}
          </li>
        ))}
      </ul>
    </Line>
  );
}

const TONES: Record<string, Tone> = { error: "bad", warning: "ask" };
const LONG_NOTICE = 240;

export function Notice(props: CardProps) {
  const item = props.item.value as NoticeItem;
  const { level = "info", text = "" } = item;
  const left = <LeftOut cut={item.cut} id={item.id} sessionId={props.conversation.sessionId} />;
  if (level === "output") {
    return (
      <>
        <Output text={text} fromStart label="Output of a command" />
        {left}
      </>
    );
  }
  const words = level === "unknown" ? `A message that this version does not know: ${text}` : text;
  return (
    <>
      <Line {...props} tone={TONES[level] ?? "quiet"} words={<Shortened text={words} />} />
      {left}
    </>
  );
}

function Shortened(props: { text: string }) {
  const [isOpen, open] = useState(false);
  if (isOpen || props.text.length <= LONG_NOTICE + 60) return <span class="said">{props.text}</span>;
  return (
    <>
      {props.text.slice(0, LONG_NOTICE)}…{" "}
      <button type="button" class="plain-action" onClick={() => open(true)}>
        Show all
      </button>
    </>
  );
}

const GAPS: Record<string, string> = {
  damage: "Entries here could not be read: the journal is damaged.",
  partials: "Pieces of text that were being written are not kept.",
  reset: "The journal was replaced here.",
  retention: "Earlier entries were removed after the time they are kept.",
};

export function GapLine(props: CardProps) {
  const { reason = "", count = 0 } = props.item.value as GapItem;
  const words = GAPS[reason] ?? `Something is missing here${reason ? `: ${reason.replaceAll("_", " ")}` : "."}`;
  return <Line {...props} tone="ask" words={count ? `${words} ${count.toLocaleString()} entries.` : words} />;
}
