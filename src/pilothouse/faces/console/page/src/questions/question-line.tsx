/** A question that is not current: one line, which makes it current. */

import type { Question } from "../api/types";
import { rowOf } from "../state/sessions";
import { Coded } from "../ui/coded";
import { settledWords, useLooked } from "./answering";
import { kindName, type Where } from "./question-card";
import { QuestionAge } from "./question-facts";

interface QuestionLineProps {
  question: Question;
  where: Where;
  open: () => void;
}

export function QuestionLine(props: QuestionLineProps) {
  const { question } = props;
  const settled = settledWords(question.id);
  useLooked(question.id);
  return (
    <button type="button" class="question-line" onClick={props.open} data-question={question.id}>
      <span class="badge ask">{kindName(question)}</span>
      <span class={settled === undefined ? "cut grow" : "cut grow quiet"}>{settled || <Coded text={question.title} />}</span>
      {props.where === "inbox" && (
        <span class="question-line-session quiet cut">{rowOf(question.session_id)?.title}</span>
      )}
      <QuestionAge question={question} />
    </button>
  );
}
