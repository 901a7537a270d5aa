/** The form of an MCP server, read from its JSON schema: flat fields of a few kinds, and the values filled in. */

import { escapeHidden } from "../ui/hidden";
import { lookUp } from "../ui/lookup";

type Json = Record<string, unknown>;

export interface FormChoice {
  value: unknown;
  name: string;
}

export interface FormField {
  name: string;
  title: string;
  description: string;
  isRequired: boolean;
  kind: "text" | "number" | "integer" | "boolean" | "choice" | "choices" | "json";
  /** Of a text: the `type` of its field. */
  inputType: "text" | "email" | "url" | "date" | "datetime-local";
  choices: FormChoice[];
  isLong: boolean;
  least?: number | undefined;
  most?: number | undefined;
  initial: FormValue;
}

/** As it stands in the form: text of a field, whether it is ticked, or which of the choices by their place. */
export type FormValue = string | boolean | readonly number[];
export type FormValues = Readonly<Record<string, FormValue>>;

const INPUT_TYPES: Record<string, FormField["inputType"]> = {
  email: "email",
  uri: "url",
  date: "date",
  "date-time": "datetime-local",
};
/** How the schema calls the least and the most of it. */
const LIMITS: Partial<Record<FormField["kind"], [string, string]>> = {
  text: ["minLength", "maxLength"],
  choices: ["minItems", "maxItems"],
};
const LONG = 200;

export function formFields(schema: Json): FormField[] {
  const required = list(schema.required);
  const given = Object.entries(object(schema.properties));
  return given.map(([name, each]) => field(name, object(each), required.includes(name)));
}

/** The values to send. What is left empty is left out. */
export function formContent(
  fields: readonly FormField[],
  values: FormValues,
): { content: Json; wrong: Record<string, string> } {
  // Without a prototype, `__proto__` is a name like any other.
  const content = Object.create(null) as Json;
  const wrong = Object.create(null) as Record<string, string>;
  for (const each of fields) {
    try {
      const value = valueOf(each, lookUp(values, each.name) ?? each.initial);
      if (value !== undefined) content[each.name] = value;
    } catch (error) {
      wrong[each.name] = error instanceof Error ? error.message : String(error);
    }
  }
  return { content, wrong };
}

function field(name: string, given: Json, isRequired: boolean): FormField {
  const choices = choicesOf(given);
  const kind = kindOf(given, choices);
  const [low, high] = LIMITS[kind] ?? ["minimum", "maximum"];
  return {
    name,
    title: plain(text(given.title) || name),
    description: plain(text(given.description)),
    isRequired,
    kind,
    inputType: lookUp(INPUT_TYPES, text(given.format)) ?? "text",
    choices,
    isLong: kind === "text" && !lookUp(INPUT_TYPES, text(given.format)) && (number(given.maxLength) ?? 0) > LONG,
    least: number(given[low]),
    most: number(given[high]),
    initial: initialOf(kind, given, choices),
  };
}

function kindOf(given: Json, choices: readonly FormChoice[]): FormField["kind"] {
  if (given.type === "array") return choices.length ? "choices" : "json";
  if (choices.length) return "choice";
  switch (given.type) {
    case "number":
    case "integer":
    case "boolean":
      return given.type;
    case "string":
      return "text";
    default:
      return "json";
  }
}

/** Plain values with or without names, or values that have a title each; of a list, those of its items. */
function choicesOf(given: Json): FormChoice[] {
  const from = given.type === "array" ? object(given.items) : given;
  const names = list(from.enumNames);
  const plainOnes = list(from.enum).map((value, at) => ({ value, name: plain(text(names[at]) || shown(value)) }));
  if (plainOnes.length) return plainOnes;
  const titled = list(from.oneOf).length ? list(from.oneOf) : list(from.anyOf);
  return titled
    .map(object)
    .filter((each) => "const" in each)
    .map((each) => ({ value: each.const, name: plain(text(each.title) || shown(each.const)) }));
}

function initialOf(kind: FormField["kind"], given: Json, choices: readonly FormChoice[]): FormValue {
  const value = given.default;
  const place = (of: unknown) => choices.findIndex((each) => each.value === of);
  switch (kind) {
    case "boolean":
      return value === true;
    case "choices":
      return list(value).map(place).filter((at) => at >= 0);
    case "choice":
      return place(value) >= 0 ? String(place(value)) : "";
    case "json":
      return value === undefined ? "" : JSON.stringify(value, null, 2);
    default:
      if (value === undefined || value === null) return "";
      return given.format === "date-time" ? localTime(text(value)) : String(value);
  }
}

function valueOf(given: FormField, value: FormValue): unknown {
  if (given.kind === "boolean") return value === true;
  if (given.kind === "choices") return severalOf(given, value as readonly number[]);
  const typed = String(value);
  if (typed === "") return undefined;
  switch (given.kind) {
    case "choice":
      return given.choices[Number(typed)]?.value;
    case "number":
    case "integer":
      return Number(typed);
    case "json":
      return parsed(typed);
    default:
      return given.inputType === "datetime-local" ? new Date(typed).toISOString() : typed;
  }
}

function severalOf(given: FormField, places: readonly number[]): unknown[] | undefined {
  if (!places.length && !given.isRequired) return undefined;
  const least = given.least ?? (given.isRequired ? 1 : 0);
  if (places.length < least) throw new Error(`Choose at least ${least}`);
  if (given.most !== undefined && places.length > given.most) throw new Error(`Choose at most ${given.most}`);
  return [...places].sort((a, b) => a - b).map((at) => given.choices[at]?.value);
}

function parsed(typed: string): unknown {
  try {
    return JSON.parse(typed);
  } catch {
    throw new Error("This is not JSON");
  }
}

/** A moment as the browser's field has it: in the time zone of this machine, without its name. */
function localTime(given: string): string {
  const at = new Date(given);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** A label in one line, with nothing hidden in it: it must not look like another one. */
function plain(words: string): string {
  return escapeHidden(words).replace(/[\n\t]/g, " ");
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function object(value: unknown): Json {
  return value && typeof value === "object" && !Array.isArray(value) ? (value as Json) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}
