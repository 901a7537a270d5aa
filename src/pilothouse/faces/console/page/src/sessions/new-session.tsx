/** The start of a session: what to do, where, with which model and mode, and for how much. */

import { useEffect, useRef, useState } from "preact/hooks";
import { get, Refusal } from "../api/http";
import type { Runner } from "../api/types";
import { go } from "../routes";
import { draftOf, setPictures, writeDraft } from "../steering/drafts";
import { contentOf } from "../steering/images";
import { MODES } from "../steering/modes";
import { AttachButton, Pictures, usePictures } from "../steering/pictures";
import { errorWords } from "../ui/error-words";
import { randomId } from "../ui/ids";
import { toastError } from "../ui/toasts";
import { OPTION_FIELDS, optionsOf, type Typed } from "./advanced-options";
import { DirectoryField } from "./directory-field";
import { FormField, TypedField } from "./form-field";
import { ModelField } from "./model-field";
import {
  begunChoices,
  begunOptions,
  keepChoices,
  lastChoices,
  NEW_DRAFT,
  recentDirectories,
  startOf,
  startSession,
  wholePath,
  withoutBypass,
  type Choices,
} from "./starting";

/** Refusals that name no member, and the field they are about. */
const FIELD_OF: Record<string, string> = {
  "directory-refused": "cwd",
  "bypass-not-allowed": "options.mode",
  "cap-reached": "caps.session_usd",
  "unknown-runner": "options.machine",
};

export function NewSession() {
  const form = useForm();
  const { choices, choose, wrong } = form;
  const runners = useRunners();
  const isGone = runners !== null && choices.machine !== "" && !runners.some((each) => each.name === choices.machine);
  useEffect(() => {
    if (isGone) choose({ machine: "" });
  }, [isGone]);
  const first = useRef<HTMLTextAreaElement>(null);
  useEffect(() => first.current?.focus(), []);
  return (
    <form class="new-form" onSubmit={(event) => void form.submit(event)}>
      <h1>New session</h1>
      <FormField label="What is to be done" id="start-prompt" wrong={wrong.prompt}>
        <textarea
          id="start-prompt"
          class="field"
          ref={first}
          rows={6}
          aria-invalid={!!wrong.prompt}
          value={form.prompt}
          onInput={(event) => form.setPrompt(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && void form.submit(event)}
          onPaste={form.paste}
        />
        <div class="row wrap">
          <AttachButton disabled={false} onFiles={(files) => void form.addFiles(files)} />
          <Pictures pictures={form.pictures} isReading={form.isReading} onDrop={form.dropPicture} />
        </div>
      </FormField>
      <div>
        <DirectoryField id="start-cwd" label="Directory" value={choices.cwd} onChange={(cwd) => choose({ cwd })} wrong={wrong.cwd} machine={choices.machine} />
        {wrong.cwd && (
          <p class="wrong" id="start-cwd-wrong" role="alert">
            {wrong.cwd}
          </p>
        )}
      </div>
      <ModeChoice mode={choices.mode} onChoose={(mode) => choose({ mode })} wrong={wrong["options.mode"]} />
      <div class="form-columns">
        <FormField label="Model" id="start-model" wrong={wrong["options.model"]}>
          <ModelField id="start-model" value={choices.model} onChange={(model) => choose({ model })} />
        </FormField>
        <FormField label="Budget, USD" id="start-budget" wrong={wrong["caps.session_usd"]} note="It stops before the next turn">
          <input
            id="start-budget"
            class="field"
            inputMode="decimal"
            placeholder="No limit of its own"
            value={choices.budget}
            onInput={(event) => choose({ budget: event.currentTarget.value })}
          />
        </FormField>
        <FormField label="Machine" id="start-machine" wrong={wrong["options.machine"]}>
          <select id="start-machine" class="field" value={choices.machine} onChange={(event) => choose({ machine: event.currentTarget.value })}>
            <option value="">The server's own</option>
            {(runners ?? []).map((each) => (
              <option key={each.name} value={each.name} disabled={each.state !== "connected"}>
                {each.name} {each.state !== "connected" && `(${each.state})`}
              </option>
            ))}
          </select>
        </FormField>
        <FormField label="Label" id="start-label" wrong={wrong.label} note="A word for lists and the policy">
          <input id="start-label" class="field" maxLength={256} value={choices.label} onInput={(event) => choose({ label: event.currentTarget.value })} />
        </FormField>
      </div>
      <details class="advanced" open={form.hasBegun || OPTION_FIELDS.some((each) => wrong[`options.${each.member}`])}>
        <summary>Advanced options</summary>
        <div class="form-columns">
          {OPTION_FIELDS.map((field) => (
            <TypedField
              key={field.member}
              field={field}
              value={form.typed[field.member] ?? ""}
              wrong={wrong[`options.${field.member}`]}
              onChange={(value) => form.setTyped({ ...form.typed, [field.member]: value })}
            />
          ))}
        </div>
      </details>
      {form.failed && (
        <p class="wrong" role="alert">
          {form.failed}
        </p>
      )}
      <div class="row form-ways">
        <button class="button main" disabled={form.isBusy || !form.mayStart}>
          {form.isBusy ? "Starting…" : "Start session"} <kbd>Ctrl Enter</kbd>
        </button>
        <button type="button" class="button plain" onClick={() => go({ view: "sessions" })}>
          Cancel
        </button>
      </div>
    </form>
  );
}

function useForm() {
  const prompt = draftOf(NEW_DRAFT).value;
  const images = usePictures(NEW_DRAFT);
  const [last] = useState(() => {
    const last = lastChoices();
    return { ...last, cwd: last.cwd || recentDirectories()[0] || "" };
  });
  const choices: Choices = { ...last, ...begunChoices.now.value };
  const typed = begunOptions.now.value;
  // What is kept from an earlier visit is not to be started with unseen.
  const [hasBegun] = useState(() => Object.values(typed).some(Boolean));
  useEffect(() => begunChoices.write(withoutBypass(begunChoices.now.peek())), []);
  const isEmpty = !prompt.trim() && !images.pictures.length;
  const mayStart = !isEmpty && !images.isReading && choices.cwd.trim() !== "";
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [failed, setFailed] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [key, setKey] = useState(randomId);

  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy || !mayStart) return;
    const found = wrongIn(choices, typed);
    setWrong(found);
    setFailed("");
    if (Object.keys(found).length) return;
    setBusy(true);
    try {
      const cwd = choices.machine ? choices.cwd.trim() : await wholePath(choices.cwd);
      const chosen = { ...choices, cwd };
      const content = contentOf(prompt, images.pictures);
      const started = await startSession(startOf(content, chosen, optionsOf(typed).options, key));
      keepChoices(chosen);
      writeDraft(NEW_DRAFT, "");
      setPictures(NEW_DRAFT, []);
      begunChoices.write({});
      begunOptions.write({});
      go({ view: "session", id: started.session_id });
    } catch (error) {
      setBusy(false);
      if (!(error instanceof Refusal)) return setFailed((error as Error).message);
      setKey(randomId());
      const at = refusedFields(error);
      setWrong(at);
      if (!Object.keys(at).length) setFailed(errorWords(error));
    }
  };
  return {
    prompt,
    setPrompt: (text: string) => writeDraft(NEW_DRAFT, text),
    ...images,
    mayStart,
    choices,
    choose: (some: Partial<Choices>) => begunChoices.write({ ...begunChoices.now.peek(), ...some }),
    typed,
    hasBegun,
    setTyped: begunOptions.write,
    wrong,
    failed,
    isBusy,
    submit,
  };
}

function wrongIn(choices: Choices, typed: Typed): Record<string, string> {
  const { wrong } = optionsOf(typed);
  const found = Object.fromEntries(Object.entries(wrong).map(([member, words]) => [`options.${member}`, words]));
  const budget = choices.budget.trim();
  if (budget && !(Number(budget) > 0)) found["caps.session_usd"] = "Give a number above 0";
  if (!(choices.machine ? /^\// : /^(\/|~(\/|$))/).test(choices.cwd.trim())) found.cwd = "Give an absolute path";
  return found;
}

/** What the server said, by the field it is about. */
function refusedFields(refusal: Refusal): Record<string, string> {
  const errors = refusal.problem.errors ?? [];
  const known = errors.filter((each) => isField(each.member));
  if (known.length) return Object.fromEntries(known.map((each) => [each.member, each.message]));
  const member = FIELD_OF[refusal.code];
  return member ? { [member]: errorWords(refusal) } : {};
}

function isField(member: string): boolean {
  const own = ["prompt", "cwd", "label", "caps.session_usd", "options.model", "options.mode", "options.machine"];
  return own.includes(member) || OPTION_FIELDS.some((each) => `options.${each.member}` === member);
}

/** The machines besides the server's own; null until they were read. */
function useRunners(): Runner[] | null {
  const [runners, setRunners] = useState<Runner[] | null>(null);
  useEffect(() => {
    get<Runner[]>("/api/runners").then(setRunners, toastError);
  }, []);
  return runners;
}

function ModeChoice(props: { mode: string; onChoose: (mode: string) => void; wrong: string | undefined }) {
  const [isAll, setAll] = useState(props.mode === "bypassPermissions");
  const shown = MODES.filter((each) => isAll || each.mode !== "bypassPermissions");
  return (
    <fieldset class="mode-choice">
      <legend class="field-label">Permissions</legend>
      <label class={props.mode ? "mode-card" : "mode-card chosen"}>
        <input type="radio" name="mode" checked={!props.mode} onChange={() => props.onChoose("")} />
        <span>
          <b>As set up</b>
          <span class="menu-note">What the CLI's own settings say</span>
        </span>
      </label>
      {shown.map((each) => (
        <label key={each.mode} class={props.mode === each.mode ? "mode-card chosen" : "mode-card"} data-mode={each.mode}>
          <input type="radio" name="mode" checked={props.mode === each.mode} onChange={() => props.onChoose(each.mode)} />
          <span>
            <b>{each.name}</b>
            <span class="menu-note">{each.note}</span>
          </span>
        </label>
      ))}
      {!isAll && (
        <button type="button" class="button plain small" onClick={() => setAll(true)}>
          Show “bypass permissions”
        </button>
      )}
      {props.mode === "bypassPermissions" && (
        <p class="wrong" role="status">
          It will run every command and change every file without asking you. Use it only in a sandbox.
        </p>
      )}
      {props.wrong && (
        <p class="wrong" role="alert">
          {props.wrong}
        </p>
      )}
    </fieldset>
  );
}
