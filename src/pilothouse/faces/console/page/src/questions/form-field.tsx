/** One field of an MCP server's form, checked by the browser itself. */

import { useEffect, useId, useRef } from "preact/hooks";
import type { FormField as Field, FormValue } from "./form-schema";

interface FormFieldProps {
  field: Field;
  value: FormValue;
  change: (value: FormValue) => void;
  /** What the browser cannot know is wrong with it. */
  wrong: string;
}

export function FormField(props: FormFieldProps) {
  const { field } = props;
  const id = useId();
  const about = field.description ? `${id}-about` : undefined;
  if (field.kind === "choices") return <Several {...props} about={about} />;
  if (field.kind === "boolean")
    return (
      <div class="form-field">
        <label class="tick">
          <input
            type="checkbox"
            checked={props.value === true}
            aria-describedby={about}
            onChange={(event) => props.change(event.currentTarget.checked)}
          />
          {field.title}
        </label>
        <About id={about} words={field.description} />
      </div>
    );
  return (
    <div class="form-field">
      <label for={id}>
        {field.title}
        {field.isRequired ? <span class="quiet small"> required</span> : null}
      </label>
      <Control {...props} id={id} about={about} />
      <About id={about} words={field.description} />
    </div>
  );
}

function Control(props: FormFieldProps & { id: string; about: string | undefined }) {
  const { field, id, wrong } = props;
  const own = useRef<HTMLInputElement & HTMLTextAreaElement>(null);
  useEffect(() => own.current?.setCustomValidity(wrong), [wrong]);
  const shared = {
    id,
    class: field.kind === "json" ? "field mono" : "field",
    value: String(props.value),
    required: field.isRequired,
    "aria-describedby": props.about,
    onInput: (event: { currentTarget: { value: string } }) => props.change(event.currentTarget.value),
  };
  const lengths = {
    ...(field.least ? { minLength: field.least } : {}),
    ...(field.most ? { maxLength: field.most } : {}),
  };
  if (field.kind === "choice")
    return (
      <select {...shared}>
        <option value="">{field.isRequired ? "Choose one" : "No answer"}</option>
        {field.choices.map((choice, at) => (
          <option key={at} value={String(at)}>
            {choice.name}
          </option>
        ))}
      </select>
    );
  if (field.kind === "json") return <textarea ref={own} rows={4} spellcheck={false} {...shared} />;
  if (field.kind === "text" && field.isLong) return <textarea rows={4} {...shared} {...lengths} />;
  if (field.kind === "text") return <input type={field.inputType as "text"} {...shared} {...lengths} />;
  const step = field.kind === "integer" ? 1 : "any";
  return <input type="number" step={step} min={field.least} max={field.most} {...shared} />;
}

function Several(props: FormFieldProps & { about: string | undefined }) {
  const { field } = props;
  const chosen = Array.isArray(props.value) ? (props.value as readonly number[]) : [];
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.setCustomValidity(props.wrong), [props.wrong]);
  const toggle = (at: number, isOn: boolean) =>
    props.change(isOn ? [...chosen, at] : chosen.filter((each) => each !== at));
  return (
    <fieldset class="form-field" aria-describedby={props.about}>
      <legend>
        {field.title}
        <span class="quiet small"> {amounts(field)}</span>
      </legend>
      {field.choices.map((choice, at) => (
        <label key={at} class="tick">
          <input
            ref={at === 0 ? first : undefined}
            type="checkbox"
            checked={chosen.includes(at)}
            onChange={(event) => toggle(at, event.currentTarget.checked)}
          />
          {choice.name}
        </label>
      ))}
      <About id={props.about} words={field.description} />
    </fieldset>
  );
}

function About(props: { id: string | undefined; words: string }) {
  if (!props.words) return null;
  return (
    <p id={props.id} class="quiet small">
      {props.words}
    </p>
  );
}

function amounts(field: Field): string {
  const least = field.least ?? (field.isRequired ? 1 : 0);
  if (least && least === field.most) return `choose ${least}`;
  if (least && field.most !== undefined) return `choose ${least} to ${field.most}`;
  if (least) return `choose at least ${least}`;
  return field.most === undefined ? "choose any" : `choose at most ${field.most}`;
}
