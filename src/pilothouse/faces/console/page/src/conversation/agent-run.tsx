/** A subagent inside the call that started it: what it was told, what it did, and what came of it. */

import { useState } from "preact/hooks";
import type { ToolItem } from "../api/types";
import { Markdown } from "../ui/markdown";
import { amount, duration } from "../ui/time";
import { ItemCard, type CardProps } from "./item-card";
import { outlineOf } from "./outline";
import { LeftOut } from "./output";
import { Elapsed } from "./tool-card";
import { toolName } from "./tool-summary";

const AGENT_TOOLS = new Set(["Agent", "Task"]);
/** More of them are shown when asked for, the newest first. */
const SHOWN = 40;

/** Items inside a call make it one, whatever its tool is called. */
export function isAgent(item: ToolItem, children: number): boolean {
  return children > 0 || AGENT_TOOLS.has(item.tool);
}

export function isTaskOver(item: ToolItem): boolean {
  if (item.task) return (item.task.state ?? "running") !== "running";
  return item.state !== "running" && item.state !== "asking" && item.state !== "writing";
}

/** The subagent's numbers, for the head of its card. */
export function AgentFacts(props: { item: ToolItem }) {
  const { item } = props;
  const { task } = item;
  const wanted = item.input?.subagent_type;
  if (!task) return typeof wanted === "string" ? <span class="badge">{wanted}</span> : null;
  const isOver = isTaskOver(item);
  const facts = [
    isOver || !task.last_tool ? "" : toolName(task.last_tool),
    task.tool_uses ? `${task.tool_uses} tool ${task.tool_uses === 1 ? "use" : "uses"}` : "",
    task.tokens ? `${amount(task.tokens)} tokens` : "",
    isOver && (task.duration_ms ?? 0) >= 100 ? duration(task.duration_ms!) : "",
  ].filter(Boolean);
  return (
    <>
      {task.type && <span class="badge">{task.type}</span>}
      {task.background && <span class="badge">In the background</span>}
      {isOver && task.state !== "completed" && <span class="badge bad">{task.state}</span>}
      <span class="agent-facts">{facts.join(" · ")}</span>
      {!isOver && item.state !== "running" && item.at ? <Elapsed since={item.at} /> : null}
    </>
  );
}

export function AgentRun(props: CardProps) {
  const item = props.item.value as ToolItem;
  const prompt = item.input?.prompt;
  return (
    <div class="agent">
      {typeof prompt === "string" && prompt && <Task text={prompt} />}
      <AgentItems {...props} id={item.id} />
      <AgentResult item={item} sessionId={props.conversation.sessionId} />
    </div>
  );
}

function Task(props: { text: string }) {
  const [isOpen, open] = useState(false);
  return (
    <div class="agent-task">
      <button type="button" class="fold" aria-expanded={isOpen} onClick={() => open(!isOpen)}>
        What it was told
      </button>
      {isOpen && <Markdown level={2} text={props.text} />}
    </div>
  );
}

function AgentItems(props: CardProps & { id: string }) {
  const outline = outlineOf(props.conversation);
  const isWhole = outline.isWhole(props.id);
  const ids = outline.childrenOf(props.id).value;
  const hidden = isWhole.value ? 0 : Math.max(0, ids.length - SHOWN);
  return (
    <div class="nested">
      {hidden > 0 && (
        <button type="button" class="more-lines" onClick={() => (isWhole.value = true)}>
          Show {hidden} earlier items
        </button>
      )}
      {ids.slice(hidden).map((id) => {
        const item = props.conversation.item(id);
        return item && <ItemCard key={id} item={item} conversation={props.conversation} />;
      })}
    </div>
  );
}

/** What a subagent in the background gave is in its task; the call's own result is then only that it began. */
function AgentResult(props: { item: ToolItem; sessionId: string }) {
  const { item } = props;
  if (item.state === "failed" || item.state === "denied") return null;
  const text = item.task?.summary ?? (item.task?.background ? null : item.result);
  if (!text) return null;
  return (
    <div class="agent-result">
      <strong class="small">Result</strong>
      <Markdown level={2} text={text} />
      <LeftOut cut={item.cut} id={item.id} sessionId={props.sessionId} />
    </div>
  );
}
