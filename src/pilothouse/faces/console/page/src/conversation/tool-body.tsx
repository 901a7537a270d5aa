/** The view that fits a tool: a command with its output, a diff, a file, hits, a list, a page, a plan, a value. */

import type {
  ChoiceView,
  CommandView,
  FileView,
  ImageView,
  McpView,
  PlanView,
  SearchView,
  StructuredView,
  TodoView,
  ToolItem,
  WebView,
} from "../api/types";
import { Code } from "../ui/code";
import { languageOfPath } from "../ui/highlighter";
import { lookUp } from "../ui/lookup";
import { Markdown, SafeLink } from "../ui/markdown";
import { ChangedFile } from "./changed-file";
import { LeftOut, Output } from "./output";
import { Pictures } from "./pictures";
import { placesOf } from "./session-status";
import { shortPath } from "./tool-summary";

interface BodyProps {
  item: ToolItem;
  sessionId: string;
}

export function ToolBody(props: BodyProps) {
  const { item } = props;
  const view = item.view;
  return (
    <>
      {bodyOf(props)}
      <LeftOut cut={view?.view === "diff" ? 0 : (view?.cut ?? item.cut)} id={item.id} sessionId={props.sessionId} />
    </>
  );
}

function bodyOf(props: BodyProps) {
  const { item, sessionId } = props;
  const view = item.view;
  switch (view?.view) {
    case "command":
      return <Command view={view} />;
    case "diff":
      return <ChangedFile view={view} item={item} sessionId={sessionId} />;
    case "file":
      return <File view={view} />;
    case "search":
      return <Search view={view} sessionId={sessionId} />;
    case "todo":
      return <Todos view={view} />;
    case "image":
      return <Image view={view} id={item.id} sessionId={sessionId} />;
    case "web":
      return <Web view={view} />;
    case "mcp":
      return <Mcp view={view} {...props} />;
    case "plan":
      return <Plan view={view} />;
    case "choice":
      return <Choice view={view} item={item} />;
    case "structured":
      return <Structured view={view} />;
    default:
      return <Plain {...props} />;
  }
}

/** The head has the command; one that is long, or has several lines, stands here too, as it is. */
const LONG_COMMAND = 160;

function Command(props: { view: CommandView }) {
  const { view } = props;
  const isLong = view.command.includes("\n") || view.command.length > LONG_COMMAND;
  return (
    <>
      {isLong && <Code text={view.command} language="bash" shown={12} />}
      {view.output && <Output text={view.output} />}
      {view.errors && <Output text={view.errors} isBad label="Errors" />}
      {view.interrupted && <p class="tool-trouble quiet">Interrupted.</p>}
      {view.exit_code != null && !view.output && !view.errors && <p class="small quiet">No output.</p>}
    </>
  );
}

function File(props: { view: FileView }) {
  const { view } = props;
  if (!view.text) return null;
  return <Code text={view.text} language={languageOfPath(view.path)} firstLine={view.first_line ?? 1} shown={20} />;
}

function Search(props: { view: SearchView; sessionId: string }) {
  const { view } = props;
  const places = placesOf(props.sessionId).value;
  const files = view.files ?? [];
  const text = view.text || files.map((path) => shortPath(path, places)).join("\n");
  if (!text) return view.hits === 0 ? <p class="small quiet">Nothing was found.</p> : null;
  return <Output text={text} label="Hits" fromStart />;
}

const TODO_MARKS: Record<string, [string, string]> = {
  completed: ["✓", "Done"],
  in_progress: ["▸", "In progress"],
  pending: ["", "To do"],
};

function Todos(props: { view: TodoView }) {
  return (
    <ul class="todos">
      {(props.view.todos ?? []).map((todo, at) => {
        const [sign, words] = lookUp(TODO_MARKS, todo.state ?? "pending") ?? ["", todo.state ?? ""];
        return (
          <li key={at} data-state={todo.state ?? "pending"}>
            <span class="todo-mark" role="img" aria-label={words}>
              {sign}
            </span>
            {todo.text}
          </li>
        );
      })}
    </ul>
  );
}

function Image(props: { view: ImageView; id: string; sessionId: string }) {
  const { view } = props;
  const size = view.size ? `, ${Math.ceil(view.size / 1000).toLocaleString()} kB` : "";
  return (
    <>
      <p class="small quiet">
        {view.media_type || "Image"}
        {size}
      </p>
      <Pictures sessionId={props.sessionId} id={props.id} count={1} about={view.path ?? "Image"} />
    </>
  );
}

function Web(props: { view: WebView }) {
  const { view } = props;
  return (
    <div class="web">
      {view.url && (
        <p class="small">
          <SafeLink href={view.url}>{view.url}</SafeLink>
        </p>
      )}
      {!!view.links?.length && (
        <ul class="file-list">
          {view.links.map((address, at) => (
            <li key={at}>
              <SafeLink href={address}>{address}</SafeLink>
            </li>
          ))}
        </ul>
      )}
      {view.text && (view.url ? <Markdown level={2} text={view.text} /> : <Output text={view.text} fromStart />)}
    </div>
  );
}

function Mcp(props: BodyProps & { view: McpView }) {
  return (
    <>
      <Input item={props.item} />
      {props.view.text && <Result text={props.view.text} />}
      <ImagesOf {...props} />
    </>
  );
}

/** The images that a result has beside its text. */
function ImagesOf({ item, sessionId }: BodyProps) {
  if (!item.images) return null;
  return <Pictures sessionId={sessionId} id={item.id} count={item.images} about={`Image of ${item.tool}`} />;
}

function Plan(props: { view: PlanView }) {
  return (
    <div class="plan">
      {props.view.path && <p class="mono quiet">{props.view.path}</p>}
      <Markdown level={2} text={props.view.plan} />
    </div>
  );
}

function Choice(props: { view: ChoiceView; item: ToolItem }) {
  const answers = Object.entries(props.view.answers ?? {});
  if (!answers.length && props.item.state === "done") return <p class="small quiet">Not answered.</p>;
  if (!answers.length) return <Posed item={props.item} />;
  return (
    <dl class="given-answers">
      {answers.map(([question, answer]) => (
        <div key={question}>
          <dt>{question}</dt>
          <dd>{answer}</dd>
        </div>
      ))}
    </dl>
  );
}

function Posed(props: { item: ToolItem }) {
  const given = props.item.input?.questions;
  const asked = Array.isArray(given) ? (given as { question?: unknown }[]) : [];
  // The one there is stands in the card's head.
  if (asked.length < 2) return null;
  return (
    <ul class="file-list">
      {asked.map((each, at) => (
        <li key={at}>{String(each?.question ?? "")}</li>
      ))}
    </ul>
  );
}

function Structured(props: { view: StructuredView }) {
  return <Code text={JSON.stringify(props.view.value ?? null, null, 2)} language="json" />;
}

function Plain(props: BodyProps) {
  const { item } = props;
  return (
    <>
      <Input item={item} />
      {item.result && item.state !== "failed" && <Result text={item.result} />}
      <ImagesOf {...props} />
    </>
  );
}

function Input(props: { item: ToolItem }) {
  const input = props.item.input ?? {};
  if (!Object.keys(input).length) return null;
  return <Code text={JSON.stringify(input, null, 2)} language="json" shown={16} />;
}

/** Many servers answer in JSON on one line. */
function Result(props: { text: string }) {
  const value = jsonOf(props.text);
  if (value) return <Code text={value} language="json" shown={20} />;
  return <Output text={props.text} label="Result" fromStart />;
}

function jsonOf(text: string): string | null {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}
