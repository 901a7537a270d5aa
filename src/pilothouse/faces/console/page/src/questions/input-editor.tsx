/** A tool's input to be changed before it is allowed: the parts that matter as fields, or all of it as JSON. */

import { useEffect, useId, useRef } from "preact/hooks";
import type { Question, Way } from "../api/types";
import { lookUp } from "../ui/lookup";
import { AnswerButton } from "./answer-button";
import { isSending } from "./answering";
import { leaveOnEscape } from "./card-keys";
import { useDraft } from "./drafts";

type Input = Record<string, unknown>;

/** The members that people change, by tool, and how each is called. */
const PARTS: Record<string, readonly [member: string, label: string][]> = {
  Bash: [["command", "Command"]],
  PowerShell: [["command", "Command"]],
  Write: [
    ["file_path", "File"],
    ["content", "Content"],
  ],
  Edit: [
    ["file_path", "File"],
    ["old_string", "Text to replace"],
    ["new_string", "Replacement"],
  ],
  NotebookEdit: [
    ["notebook_path", "Notebook"],
    ["new_source", "Source"],
  ],
  WebFetch: [
    ["url", "Address"],
    ["prompt", "Prompt"],
  ],
  WebSearch: [["query", "Query"]],
};
const ONE_LINE = /^(file_path|notebook_path|url|query)$/;

interface InputEditorProps {
  question: Question;
  way: Way;
  wasAsked: boolean;
  send: (input: Input) => void;
  leave: () => void;
}

export function InputEditor(props: InputEditorProps) {
  const { question } = props;
  const own = useRef<HTMLDivElement>(null);
  const given = question.input ?? {};
  const parts = partsOf(question.tool_name, given);
  const [isJson, setJson] = useDraft(question.id, "inputIsJson", !parts.length);
  const [fields, setFields] = useDraft<Input>(question.id, "inputFields", {});
  const [text, setText] = useDraft(question.id, "inputJson", "");
  const json = text || JSON.stringify({ ...given, ...fields }, null, 2);
  const read = isJson ? readJson(json, given) : { input: { ...given, ...fields }, wrong: "" };
  const isBusy = isSending(question.id);
  const submit = () => read.input && !isBusy && props.send(read.input);
  const leave = leaveOnEscape(props.leave);
  useEffect(() => {
    if (props.wasAsked) own.current?.querySelector<HTMLElement>("textarea, input")?.focus();
  }, [isJson]);
  return (
    <div
      ref={own}
      class="question-panel"
      onKeyDown={(event) => {
        leave(event);
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        event.stopPropagation();
        submit();
      }}
    >
      {isJson ? (
        <JsonField text={json} change={setText} wrong={read.wrong} />
      ) : (
        parts.map(([member, label]) => (
          <PartField
            key={member}
            label={label}
            isLine={ONE_LINE.test(member)}
            value={String(fields[member] ?? given[member])}
            change={(value) => setFields({ ...fields, [member]: value })}
          />
        ))
      )}
      <div class="row wrap">
        <AnswerButton act={submit} press="Ctrl Enter" isCurrent class="main" disabled={isBusy || !read.input}>
          {props.way.label}
        </AnswerButton>
        {parts.length > 0 && !isJson && (
          <AnswerButton act={() => setJson(true)} isCurrent={false}>
            Edit all of it as JSON
          </AnswerButton>
        )}
        <AnswerButton act={props.leave} press="Esc" isCurrent class="plain">
          Cancel
        </AnswerButton>
      </div>
    </div>
  );
}

function PartField(props: { label: string; isLine: boolean; value: string; change: (value: string) => void }) {
  const id = useId();
  const shared = {
    id,
    class: "field mono",
    value: props.value,
    spellcheck: false,
    onInput: (event: { currentTarget: { value: string } }) => props.change(event.currentTarget.value),
  };
  return (
    <>
      <label for={id}>{props.label}</label>
      {props.isLine ? <input {...shared} /> : <textarea rows={rowsFor(props.value)} {...shared} />}
    </>
  );
}

function JsonField(props: { text: string; change: (text: string) => void; wrong: string }) {
  const id = useId();
  return (
    <>
      <label for={id}>Input, as JSON</label>
      <textarea
        id={id}
        class="field mono"
        rows={rowsFor(props.text)}
        value={props.text}
        spellcheck={false}
        aria-invalid={props.wrong !== ""}
        aria-describedby={props.wrong ? `${id}-wrong` : undefined}
        onInput={(event) => props.change(event.currentTarget.value)}
      />
      {props.wrong && (
        <p id={`${id}-wrong`} class="question-wrong" role="alert">
          {props.wrong}
        </p>
      )}
    </>
  );
}

function partsOf(tool: string | null | undefined, given: Input): readonly [string, string][] {
  const parts = lookUp(PARTS, tool ?? "") ?? [];
  return parts.every(([member]) => typeof given[member] === "string") ? parts : [];
}

function readJson(text: string, given: Input): { input?: Input; wrong: string } {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch (error) {
    return { wrong: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
  if (!read || typeof read !== "object" || Array.isArray(read)) return { wrong: "The input is an object: { … }" };
  if (Object.keys(given).length && !Object.keys(read).length) return { wrong: "The input is empty" };
  return { input: read as Input, wrong: "" };
}

function rowsFor(text: string): number {
  return Math.min(14, Math.max(2, text.split("\n").length + 1));
}
