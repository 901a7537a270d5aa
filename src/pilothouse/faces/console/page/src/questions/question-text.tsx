/** What a tool is about to do: its command, its diff, its file, its address or its words. */

import type { ComponentChildren } from "preact";
import { get, part } from "../api/http";
import type { FileChange, Question } from "../api/types";
import { Code } from "../ui/code";
import { Diff, DiffText } from "../ui/diff";
import { languageOfPath } from "../ui/highlighter";
import { useLoaded, useReturn } from "../ui/load";
import { Markdown, safeAddress } from "../ui/markdown";

export function QuestionText(props: { question: Question }) {
  const { question } = props;
  const text = question.text ?? "";
  if (!text) return null;
  switch (question.format) {
    case "command":
      return <Command text={text} command={question.input?.command} />;
    case "diff":
      return (
        <ChangedFile question={question}>
          <DiffText text={text} />
        </ChangedFile>
      );
    case "markdown":
      return <Markdown text={text} />;
    case "url":
      return <Address text={text} url={question.url} />;
    default:
      if (question.tool_name !== "Write") return <Code text={text} />;
      return (
        <ChangedFile question={question}>
          <NewFile text={text} />
        </ChangedFile>
      );
  }
}

/** What a diff against the file shows; any other member of an input has to be shown beside it. */
const IN_DIFF = new Set(["file_path", "content", "old_string", "new_string", "replace_all"]);

/** The change of the file as it is now, where the server can tell; what the call says, unless that shows all of it. */
function ChangedFile(props: { question: Question; children: ComponentChildren }) {
  const { id, input } = props.question;
  const path = `/api/questions/${part(id)}/change`;
  const { value: change, error, again } = useLoaded((abort) => get<FileChange>(path, {}, abort), [id]);
  // Whoever comes back may have changed the file meanwhile.
  useReturn(again);
  const diff = change?.diff;
  const isWhole = diff && !diff.cut && !error && Object.keys(input ?? {}).every((name) => IN_DIFF.has(name));
  return (
    <>
      {change?.because && <p class="small quiet">{change.because}</p>}
      {diff && <Diff view={diff} />}
      {!isWhole && props.children}
    </>
  );
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
