/** A field of a form: its name, a word on it, and what is wrong with it. */

import type { ComponentChildren } from "preact";
import type { OptionField } from "./advanced-options";

interface FieldProps {
  label: string;
  id: string;
  note?: string | undefined;
  wrong?: string | undefined;
  children: ComponentChildren;
}

export function FormField(props: FieldProps) {
  return (
    <div class="stacked">
      <label class="field-label" for={props.id}>
        {props.label}
      </label>
      {props.children}
      {props.note && <span class="faint small">{props.note}</span>}
      {props.wrong && (
        <span class="wrong" role="alert">
          {props.wrong}
        </span>
      )}
    </div>
  );
}

interface TypedProps {
  field: OptionField;
  value: string;
  wrong: string | undefined;
  onChange: (value: string) => void;
}

/** A field of an advanced option, whatever its kind: what it holds is text in any case. */
export function TypedField(props: TypedProps) {
  const { field, value, onChange } = props;
  const id = `start-${field.member}`;
  if (field.kind === "check")
    return (
      <label class="row check">
        <input type="checkbox" checked={value !== ""} onChange={(event) => onChange(event.currentTarget.checked ? "yes" : "")} />
        <span>
          {field.name}
          {field.note && <span class="menu-note">{field.note}</span>}
        </span>
      </label>
    );
  return (
    <FormField label={field.name} id={id} note={field.note} wrong={props.wrong}>
      {field.kind === "choice" ? (
        <select id={id} class="field" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          <option value="">As set up</option>
          {field.choices?.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      ) : field.kind === "text" || field.kind === "number" ? (
        <input
          id={id}
          class="field"
          inputMode={field.kind === "number" ? "decimal" : "text"}
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      ) : (
        <textarea
          id={id}
          class={field.kind === "long" ? "field" : "field mono"}
          rows={2}
          spellcheck={field.kind === "long"}
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
    </FormField>
  );
}
