/** A question in the conversation, in one line: what was asked, who decided what, and when. */

import type { Question, QuestionItem } from "../api/types";
import { Coded } from "../ui/coded";
import { clockTime } from "../ui/time";
import type { CardProps } from "./item-card";

export function QuestionLine(props: CardProps) {
  const { question } = props.item.value as QuestionItem;
  const isOpen = question.decidable ?? question.state === "open";
  return (
    <div class="asked-line" data-state={isOpen ? "open" : question.state}>
      <span class="asked-mark" aria-hidden="true">
        ?
      </span>
      <span class="grow">
        <span class="asked-title">
          <Coded text={question.title} />
        </span> <span class="asked-answer">{answerOf(question)}</span>
      </span>
      {isOpen && (
        <button type="button" class="button ask" onClick={() => toCard(question.id)}>
          Answer
        </button>
      )}
    </div>
  );
}

/** The cards of open questions stand below the list, each with the question's id. */
export function toCard(id: string): void {
  const dock = document.querySelector<HTMLElement>(".question-dock");
  const card = dock?.querySelector<HTMLElement>(`[data-question="${CSS.escape(id)}"]`) ?? dock;
  card?.scrollIntoView({ block: "nearest" });
  card?.focus();
}

function answerOf(question: Question): string {
  const when = question.closed_at ? `, ${clockTime(question.closed_at)}` : "";
  const because = question.closed_because ? `: ${question.closed_because}` : "";
  switch (question.state) {
    case "open":
      return question.rule ? `is open. The rule “${question.rule}” says to ask.` : "is open.";
    case "expired":
      return `Expired${because}${when}`;
    case "withdrawn":
      return `Withdrawn${because}${when}`;
    case "answered":
      return `${decisionOf(question)}${deciderOf(question)}${when}`;
  }
}

function deciderOf(question: Question): string {
  const { answered_by: by, rule } = question;
  if (by === "policy") return rule ? ` by the rule “${rule}”` : " by the policy";
  return !by || by === "person" ? " by a person" : ` by ${by}`;
}

function decisionOf(question: Question): string {
  const { answer } = question;
  switch (answer?.kind) {
    case "allow":
      return answer.always ? "Allowed from now on" : answer.input ? "Allowed with another input" : "Allowed";
    case "deny":
      return `Denied${answer.stop ? " and stopped" : ""}${answer.reason ? ` (${answer.reason})` : ""}`;
    case "choose":
      return `Answered “${Object.values(answer.answers).flat().join("”, “")}”`;
    case "skip":
      return "Skipped";
    case "approve_plan":
      return `Plan approved${answer.plan ? " as edited" : ""}${answer.mode ? `, mode ${answer.mode}` : ""}`;
    case "revise_plan":
      return `Kept planning (${answer.feedback})`;
    case "reject_plan":
      return `Plan rejected${answer.reason ? ` (${answer.reason})` : ""}`;
    case "clear_context":
      return "Plan approved, in a new session";
    case "fill":
      return "Filled in";
    case "decline":
      return "Declined";
    case "dismiss":
      return "Dismissed";
    default:
      return "Answered";
  }
}
