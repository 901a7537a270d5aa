/** The model's own questions: choose among its options or say something else, add notes, or go on without an answer. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Posed, Question, Way } from "../api/types";
import type { Key } from "../ui/keys";
import { lookUp } from "../ui/lookup";
import { AnswerButton } from "./answer-button";
import { isSending, send } from "./answering";
import { CardKeys, focusIsFree } from "./card-keys";
import { useDraft } from "./drafts";
import { answerOf, type Choice, chooseOption, NO_CHOICE, PosedQuestion } from "./posed-question";

type Choices = Readonly<Record<string, Choice>>;

interface PosedProps {
  question: Question;
  isCurrent: boolean;
  facts: ComponentChildren;
}

export function PosedAnswers(props: PosedProps) {
  const { question, isCurrent } = props;
  const posed = question.posed ?? [];
  const [choices, setChoices] = useDraft<Choices>(question.id, "choices", {});
  const [active, setActive] = useState(0);
  const body = useRef<HTMLDivElement>(null);
  const isBusy = isSending(question.id);
  const missing = posed.filter((each) => answerOf(each, lookUp(choices, each.question)) === null).length;
  const way = (kind: string) => question.ways?.find((each) => each.answer.kind === kind);
  const [choose, skip, stop] = [way("choose"), way("skip"), way("deny")];

  const change = (each: Posed, choice: Choice) => setChoices({ ...choices, [each.question]: choice });
  const submit = () => {
    if (choose && !missing && !isBusy) void send(question, { ...choose.answer, ...filled(posed, choices) });
  };
  const pick = (number: number) => {
    const each = posed[active];
    if (!each) return;
    const options = each.options ?? [];
    const choice = lookUp(choices, each.question) ?? NO_CHOICE;
    if (number <= options.length) {
      change(each, chooseOption(each, choice, options[number - 1]!.label));
      if (!each.multi_select && active + 1 < posed.length) setActive(active + 1);
    } else {
      change(each, { ...choice, isOwn: true });
      body.current?.querySelectorAll<HTMLElement>(".own-words")[active]?.focus();
    }
  };
  const enter = () => (missing && active + 1 < posed.length ? setActive(active + 1) : submit());
  const plain = (each: Way) => void send(question, each.answer);

  return (
    <>
      <div ref={body} class="question-body" tabIndex={0} role="group" aria-label="Questions of the model">
        {posed.map((each, at) => (
          <PosedQuestion
            key={each.question}
            posed={each}
            choice={lookUp(choices, each.question) ?? NO_CHOICE}
            change={(choice) => change(each, choice)}
            isTitle={posed.length === 1 && each.question === question.title}
            isActive={isCurrent && at === active}
            activate={() => setActive(at)}
            submit={submit}
          />
        ))}
        {props.facts}
      </div>
      <footer class="question-foot">
        <div class="question-buttons">
          {choose && (
            <AnswerButton
              act={submit}
              press="a"
              isCurrent={isCurrent}
              class="main thumb"
              disabled={isBusy || missing > 0}
            >
              {missing && posed.length > 1 ? `${choose.label} (${missing} left)` : choose.label}
            </AnswerButton>
          )}
          {skip && (
            <AnswerButton act={() => plain(skip)} press="d" isCurrent={isCurrent} class="thumb" disabled={isBusy}>
              {skip.label}
            </AnswerButton>
          )}
          {stop && (
            <AnswerButton act={() => plain(stop)} press="D" isCurrent={isCurrent} disabled={isBusy}>
              {stop.label}
            </AnswerButton>
          )}
        </div>
      </footer>
      {isCurrent && <CardKeys name="Question" keys={keysOf(posed[active], pick, submit, enter, plain, skip, stop)} />}
    </>
  );
}

function filled(posed: readonly Posed[], choices: Choices): Record<string, unknown> {
  // Made of entries: an assignment to `__proto__` would get lost.
  const answers = Object.fromEntries(
    posed.map((each) => [each.question, answerOf(each, lookUp(choices, each.question))]),
  );
  const noted = posed.map((each) => [each.question, lookUp(choices, each.question)?.note.trim() ?? ""] as const);
  const notes = Object.fromEntries(noted.filter(([, note]) => note));
  return Object.keys(notes).length ? { answers, notes } : { answers };
}

function keysOf(
  active: Posed | undefined,
  pick: (number: number) => void,
  submit: () => void,
  enter: () => void,
  plain: (way: Way) => void,
  skip?: Way,
  stop?: Way,
): Key[] {
  const options = active?.options ?? [];
  const keys: Key[] = options
    .slice(0, 8)
    .map((option, at) => ({ press: String(at + 1), does: `Choose ${option.label}`, act: () => pick(at + 1) }));
  const own = Math.min(options.length + 1, 9);
  keys.push({ press: String(own), does: "Say something else", act: () => pick(options.length + 1) });
  keys.push({ press: "a", does: "Send the answers", act: submit });
  if (focusIsFree.value) keys.push({ press: "Enter", does: "Next question, or send the answers", act: enter });
  if (skip) keys.push({ press: "d", does: skip.label, act: () => plain(skip) });
  if (stop) keys.push({ press: "D", does: stop.label, act: () => plain(stop) });
  return keys;
}
