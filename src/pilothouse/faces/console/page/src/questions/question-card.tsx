/** One question with everything a person needs to decide on it, and the answers that the engine takes. */

import { useEffect, useId, useRef } from "preact/hooks";
import type { Question } from "../api/types";
import { Coded } from "../ui/coded";
import { escapeHidden } from "../ui/hidden";
import { settledWords, useLooked } from "./answering";
import { takeFocus, useMeantClicks } from "./card-keys";
import { ElicitationAnswers } from "./elicitation-answers";
import { PlanAnswers } from "./plan-answers";
import { PosedAnswers } from "./posed-answers";
import { QuestionAge, QuestionFacts, QuestionOrigin } from "./question-facts";
import { QuestionText } from "./question-text";
import { ToolAnswers } from "./tool-answers";

export type Where = "inbox" | "session";

const KINDS: Record<Question["kind"], string> = {
  tool: "Tool",
  plan: "Plan",
  questions: "Question",
  elicitation: "Form",
};

/** What it is, in one word: the tool's name where there is one. */
export function kindName(question: Question): string {
  if (question.kind === "tool" && question.tool_name) return escapeHidden(question.tool_name.replace(/^mcp__(.+?)__.*/s, "MCP $1"));
  if (question.kind === "elicitation" && question.server_name) return `MCP ${question.server_name}`;
  return KINDS[question.kind];
}

interface QuestionCardProps {
  question: Question;
  isCurrent: boolean;
  where: Where;
  /** Make it a line again, where that can be done. */
  fold?: () => void;
}

export function QuestionCard(props: QuestionCardProps) {
  const { question, isCurrent } = props;
  const own = useRef<HTMLElement>(null);
  const titleId = useId();
  const settled = settledWords(question.id);
  useLooked(question.id);
  const meantClicks = useMeantClicks();
  // It keeps its height while it says why it goes, so that nothing moves under the pointer.
  const height = useRef(0);
  useEffect(() => {
    if (settled === undefined) height.current = own.current?.offsetHeight ?? 0;
  });
  useEffect(() => {
    if (!isCurrent || !takeFocus()) return;
    own.current?.focus({ preventScroll: true });
    own.current?.scrollIntoView({ block: "nearest" });
  }, [isCurrent]);
  const names = ["question-card", "card", isCurrent ? "current" : "", settled === undefined ? "" : "settled"];
  return (
    <section
      ref={own}
      class={names.filter(Boolean).join(" ")}
      style={settled === undefined ? undefined : { minHeight: height.current }}
      tabIndex={-1}
      aria-labelledby={titleId}
      data-question={question.id}
      onClickCapture={meantClicks}
    >
      <header class="question-head">
        <span class="badge ask">{kindName(question)}</span>
        <h2 id={titleId} class="question-title">
          <Coded text={question.title} />
        </h2>
        <QuestionAge question={question} />
        {props.fold && (
          <button type="button" class="button plain small" aria-label="Fold the question" onClick={props.fold}>
            Fold
          </button>
        )}
      </header>
      {props.where === "inbox" && <QuestionOrigin question={question} />}
      {settled === undefined ? (
        <Answers question={question} isCurrent={isCurrent} />
      ) : (
        <p class="question-settled" role="status">
          {settled || "It takes no answer any more."}
        </p>
      )}
    </section>
  );
}

/** Each kind has its own body, since what is shown and what is filled in are one there. */
function Answers(props: { question: Question; isCurrent: boolean }) {
  const { question } = props;
  const facts = <QuestionFacts question={question} />;
  switch (question.kind) {
    case "plan":
      // Without a plan it is a plain yes or no.
      if (!question.ways?.some((way) => way.answer.kind === "approve_plan")) break;
      return <PlanAnswers {...props} facts={facts} />;
    case "questions":
      return <PosedAnswers {...props} facts={facts} />;
    case "elicitation":
      return <ElicitationAnswers {...props} facts={facts} />;
  }
  return (
    <ToolAnswers {...props}>
      <QuestionText question={question} />
      {facts}
    </ToolAnswers>
  );
}
