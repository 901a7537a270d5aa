/** What a tool is about to do: its command, its diff, its file, its address or its words. */

import type { Question } from "../api/types";
import { Code } from "../ui/code";
import { DiffText } from "../ui/diff";
import { languageOfPath } from "../ui/highlighter";
import { Markdown, safeAddress } from "../ui/markdown";

export function QuestionText(props: { question: Question }) {
  const { question } = props;
  const text = question.text ?? "";
  if (!text) return null;
  switch (question.format) {
    case "command":
      return <Command text={text} command={question.input?.command} />;
    case "diff":
      return <DiffText text={text} />;
    case "markdown":
      return <Markdown text={text} />;
    case "url":
      return <Address text={text} url={question.url} />;
    default:
      return question.tool_name === "Write" ? <NewFile text={text} /> : <Code text={text} />;
  }
}

/** The command, and below it what the server noted: only where it is certain which is which. */
function Command(props: { text: string; command: unknown }) {
  const { text, command } = props;
  if (typeof command !== "string" || !command || !text.startsWith(`${command}\n\n# `))
    return <Code text={text} language="bash" />;
  return (
    <>
      <Code text={command} language="bash" />
      <p class="question-notes">{text.slice(command.length + 2).replace(/^# /gm, "")}</p>
    </>
  );
}

/** The path, then the file's text: the first empty line is between them, since no member before it has one. */
function NewFile(props: { text: string }) {
  const at = props.text.indexOf("\n\n");
  if (at < 0) return <Code text={props.text} />;
  const head = props.text.slice(0, at);
  const language = languageOfPath(head.split("\n", 1)[0] ?? "");
  return (
    <>
      <p class="question-path mono">{head}</p>
      <Code text={props.text.slice(at + 2)} firstLine={1} {...(language ? { language } : {})} />
    </>
  );
}

/** The address as text, for people to read before they follow it. */
export function Address(props: { text: string; url?: string | null | undefined }) {
  const [address = "", ...rest] = props.text.split("\n");
  const safe = props.url ? safeAddress(props.url) : null;
  const words = rest.join("\n").trim();
  return (
    <>
      <p class="question-address">
        <span class="mono">{address}</span>
        {safe && (
          <a href={safe} target="_blank" rel="noopener noreferrer">
            Open in a new tab
          </a>
        )}
      </p>
      {words && <p class="question-words">{words}</p>}
    </>
  );
}
