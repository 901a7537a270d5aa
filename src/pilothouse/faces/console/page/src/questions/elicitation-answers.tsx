/** What an MCP server asks of a person: a form to fill in, or a page to visit. */

import type { ComponentChildren } from "preact";
import { useMemo, useRef } from "preact/hooks";
import type { Question, Way } from "../api/types";
import type { Key } from "../ui/keys";
import { lookUp } from "../ui/lookup";
import { AnswerButton } from "./answer-button";
import { isSending, send } from "./answering";
import { CardKeys } from "./card-keys";
import { useDraft } from "./drafts";
import { FormField } from "./form-field";
import { formContent, formFields, type FormValues } from "./form-schema";
import { Address } from "./question-text";

interface ElicitationProps {
  question: Question;
  isCurrent: boolean;
  facts: ComponentChildren;
}

export function ElicitationAnswers(props: ElicitationProps) {
  const { question } = props;
  const form = useRef<HTMLFormElement>(null);
  const ways = question.ways ?? [];
  const find = (kind: string) => ways.find((way) => way.answer.kind === kind);
  const [fill, decline, dismiss] = [find("fill"), find("decline"), find("dismiss")];
  const isForm = fill?.needs?.includes("content") ?? false;
  const plain = (way: Way) => void send(question, way.answer);
  // The browser says itself what is missing, and where.
  const accept = () => (isForm ? form.current?.requestSubmit() : fill && plain(fill));
  return (
    <>
      <div class="question-body" tabIndex={0} role="group" aria-label="What it asks">
        {isForm && fill ? (
          <Form question={question} form={form} send={(content) => void send(question, { ...fill.answer, content })} />
        ) : (
          <Address text={question.text ?? ""} url={question.url} />
        )}
        {props.facts}
      </div>
      <footer class="question-foot">
        <Buttons
          {...props}
          words={isForm ? "Send" : "I have done it"}
          accept={fill && accept}
          decline={decline}
          dismiss={dismiss}
          plain={plain}
        />
      </footer>
      {props.isCurrent && <CardKeys name="Form" keys={keysOf(isForm, fill && accept, plain, decline, dismiss)} />}
    </>
  );
}

interface FormProps {
  question: Question;
  form: { current: HTMLFormElement | null };
  send: (content: Record<string, unknown>) => void;
}

function Form(props: FormProps) {
  const { question } = props;
  const [values, setValues] = useDraft<FormValues>(question.id, "form", {});
  const fields = useMemo(() => formFields(question.schema ?? {}), [question.schema]);
  const { content, wrong } = formContent(fields, values);
  return (
    <form
      ref={props.form}
      class="elicitation-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!Object.keys(wrong).length && !isSending(question.id)) props.send(content);
      }}
    >
      <Message question={question} fields={fields.length} />
      {fields.map((field) => (
        <FormField
          key={field.name}
          field={field}
          value={lookUp(values, field.name) ?? field.initial}
          change={(value) => setValues({ ...values, [field.name]: value })}
          wrong={wrong[field.name] ?? ""}
        />
      ))}
      <button type="submit" class="unseen" tabIndex={-1} aria-hidden="true" />
    </form>
  );
}

/** The server's text has a line for each field behind the message; here the fields are there themselves. */
function Message(props: { question: Question; fields: number }) {
  const { question } = props;
  const lines = (question.text ?? "").split("\n");
  const words = lines.slice(0, Math.max(1, lines.length - props.fields)).join("\n");
  // A short message is all in the title.
  return question.title.endsWith(`: ${words}`) ? null : <p class="question-words">{words}</p>;
}

interface ButtonsProps extends ElicitationProps {
  words: string;
  accept: (() => void) | undefined;
  decline: Way | undefined;
  dismiss: Way | undefined;
  plain: (way: Way) => void;
}

function Buttons(props: ButtonsProps) {
  const { accept, decline, dismiss, plain } = props;
  const shared = { isCurrent: props.isCurrent, disabled: isSending(props.question.id) };
  return (
    <div class="question-buttons">
      {accept && (
        <AnswerButton {...shared} act={accept} press="a" class="main thumb">
          {props.words}
        </AnswerButton>
      )}
      {decline && (
        <AnswerButton {...shared} act={() => plain(decline)} press="d" class="thumb">
          {decline.label}
        </AnswerButton>
      )}
      {dismiss && (
        <AnswerButton {...shared} act={() => plain(dismiss)} press="D">
          {dismiss.label}
        </AnswerButton>
      )}
    </div>
  );
}

function keysOf(
  isForm: boolean,
  accept: (() => void) | undefined,
  plain: (way: Way) => void,
  decline?: Way,
  dismiss?: Way,
): Key[] {
  const keys: Key[] = [];
  if (accept) keys.push({ press: "a", does: isForm ? "Send the form" : "I have done it", act: accept });
  if (decline) keys.push({ press: "d", does: decline.label, act: () => plain(decline) });
  if (dismiss) keys.push({ press: "D", does: dismiss.label, act: () => plain(dismiss) });
  return keys;
}
