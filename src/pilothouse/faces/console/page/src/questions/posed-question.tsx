/** One question of the model's: its options with what they mean, own words, and a note. */

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Option, Posed } from "../api/types";
import { Code } from "../ui/code";
import { isConverting } from "../ui/typing";
import { leaveOnEscape } from "./card-keys";

/** What is chosen so far. */
export interface Choice {
  readonly labels: readonly string[];
  /** Words of one's own. */
  readonly own: string;
  /** With one choice: they stand in the place of an option. */
  readonly isOwn: boolean;
  readonly note: string;
}

export const NO_CHOICE: Choice = { labels: [], own: "", isOwn: false, note: "" };

/** One's own words where they count. */
function ownOf(posed: Posed, choice: Choice): string {
  return posed.multi_select || choice.isOwn ? choice.own.trim() : "";
}

/** What is sent for it; null: nothing is chosen yet. */
export function answerOf(posed: Posed, choice: Choice = NO_CHOICE): string | string[] | null {
  const own = ownOf(posed, choice);
  if (!posed.multi_select) return own || (choice.labels[0] ?? null);
  const all = own ? [...choice.labels, own] : [...choice.labels];
  return all.length ? all : null;
}

/** Choose an option, or take one of several back. */
export function chooseOption(posed: Posed, choice: Choice, label: string): Choice {
  if (!posed.multi_select) return { ...choice, labels: [label], isOwn: false };
  const isChosen = choice.labels.includes(label);
  return { ...choice, labels: isChosen ? choice.labels.filter((each) => each !== label) : [...choice.labels, label] };
}

interface PosedQuestionProps {
  posed: Posed;
  choice: Choice;
  change: (choice: Choice) => void;
  /** The card's title says the same already. */
  isTitle: boolean;
  /** The numbers choose in this one. */
  isActive: boolean;
  activate: () => void;
  submit: () => void;
}

export function PosedQuestion(props: PosedQuestionProps) {
  const { posed, choice, change, isActive } = props;
  const id = useId();
  const options = posed.options ?? [];
  const [looked, look] = useState("");
  const preview = previewOf(options, looked, choice);
  const own = ownOf(posed, choice);
  const hasOwn = own !== "" && !posed.multi_select;
  const chosenAt = hasOwn ? -1 : options.findIndex((option) => choice.labels.includes(option.label));
  return (
    <section class="posed" onFocusIn={props.activate}>
      <h3 id={id} class={props.isTitle ? "unseen" : ""}>
        {posed.question}
      </h3>
      {(posed.header || posed.multi_select) && (
        <p class="quiet small">
          {posed.header && <span class="badge">{posed.header}</span>} {posed.multi_select && "Choose one or several"}
        </p>
      )}
      <div class={preview ? "posed-columns" : ""}>
        <div
          class="posed-options"
          role={posed.multi_select ? "group" : "radiogroup"}
          aria-labelledby={id}
          onKeyDown={posed.multi_select ? undefined : moveChoice}
        >
          {options.map((option, at) => (
            <OptionButton
              key={option.label}
              option={option}
              number={isActive ? at + 1 : undefined}
              isMany={posed.multi_select ?? false}
              isStop={posed.multi_select || (chosenAt < 0 ? at === 0 : at === chosenAt)}
              isChosen={!hasOwn && choice.labels.includes(option.label)}
              choose={() => {
                props.activate();
                change(chooseOption(posed, choice, option.label));
              }}
              look={() => look(option.label)}
            />
          ))}
          <OwnWords {...props} number={isActive ? options.length + 1 : undefined} isChosen={own !== ""} />
        </div>
        {preview && (
          <div class="posed-preview">
            <p class="quiet small">{preview.label}</p>
            <Code text={preview.preview ?? ""} />
          </div>
        )}
      </div>
      <Note {...props} />
    </section>
  );
}

const STEPS: Record<string, number> = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

/** The arrows choose the next one or the one before, as in every group of radio buttons. */
function moveChoice(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const step = STEPS[event.key];
  const radios = [...event.currentTarget.querySelectorAll<HTMLElement>("[role=radio]")];
  const at = radios.indexOf(event.target as HTMLElement);
  if (!step || at < 0) return;
  event.preventDefault();
  const next = radios[(at + step + radios.length) % radios.length];
  next?.focus();
  next?.click();
}

interface OptionButtonProps {
  option: Option;
  number: number | undefined;
  isMany: boolean;
  isChosen: boolean;
  /** Tab comes to it: of several to choose one from, it comes to one. */
  isStop: boolean;
  choose: () => void;
  look: () => void;
}

function OptionButton(props: OptionButtonProps) {
  const { option, number } = props;
  return (
    <button
      type="button"
      class="posed-option"
      role={props.isMany ? "checkbox" : "radio"}
      aria-checked={props.isChosen}
      tabIndex={props.isStop ? 0 : -1}
      onClick={props.choose}
      onFocus={props.look}
      onMouseEnter={props.look}
    >
      <span class="mark" aria-hidden="true" />
      <span class="grow">
        <span class="option-label">{option.label}</span>
        {option.description && <span class="quiet small">{option.description}</span>}
      </span>
      {number !== undefined && number < 10 && <kbd aria-hidden="true">{number}</kbd>}
    </button>
  );
}

function OwnWords(props: PosedQuestionProps & { number: number | undefined; isChosen: boolean }) {
  const { choice, change } = props;
  // What stands there counts for who goes to it, but not for who only passes with Tab.
  const use = () => choice.isOwn || change({ ...choice, isOwn: true });
  const isWaiting = choice.own.trim() !== "" && !props.isChosen;
  return (
    <label class={props.isChosen ? "own-words-row chosen" : "own-words-row"} onClick={use}>
      <span class="small">Something else</span>
      <input
        class="field own-words"
        value={choice.own}
        onInput={(event) => change({ ...choice, own: event.currentTarget.value, isOwn: true })}
        onKeyDown={(event) => {
          leaveOnEscape(() => event.currentTarget.blur())(event);
          if (event.key !== "Enter" || isConverting(event)) return;
          if (isWaiting) use();
          else props.submit();
        }}
      />
      {props.number !== undefined && props.number < 10 && <kbd aria-hidden="true">{props.number}</kbd>}
    </label>
  );
}

function Note(props: PosedQuestionProps) {
  const { choice, change } = props;
  const [isOpen, open] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  // The button that had the focus has become this field.
  useEffect(() => {
    if (isOpen) field.current?.focus();
  }, [isOpen]);
  if (!isOpen && !choice.note)
    return (
      <button type="button" class="button plain small posed-note" onClick={() => open(true)}>
        Add a note
      </button>
    );
  return (
    <label class="own-words-row">
      <span class="small">Note</span>
      <input
        class="field"
        ref={field}
        value={choice.note}
        onInput={(event) => change({ ...choice, note: event.currentTarget.value })}
        onKeyDown={leaveOnEscape(() => field.current?.blur())}
      />
    </label>
  );
}

/** The preview of what is looked at, else of what is chosen, else the first there is. */
function previewOf(options: readonly Option[], looked: string, choice: Choice): Option | undefined {
  const withOne = options.filter((option) => option.preview);
  const named = (label: string | undefined) => withOne.find((option) => option.label === label);
  return named(looked) ?? named(choice.labels[0]) ?? withOne[0];
}
