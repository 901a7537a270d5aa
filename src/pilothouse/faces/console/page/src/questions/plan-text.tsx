/** The plan as a page to read, or as text to edit. */

import { useEffect, useId, useRef } from "preact/hooks";
import type { Question } from "../api/types";
import { escapeHidden } from "../ui/hidden";
import { Markdown } from "../ui/markdown";
import { AnswerButton } from "./answer-button";
import { leaveOnEscape } from "./card-keys";

/** The server puts what is asked leave for behind the plan; the card shows that by itself. */
const ASKED_LEAVE = "\n\nIt asks leave, for this session, for:\n\n";

interface PlanTextProps {
  question: Question;
  isCurrent: boolean;
  edited: string | null;
  setEdited: (text: string | null) => void;
  isEdited: boolean;
  isEditing: boolean;
  toggleEditing: () => void;
  canEdit: boolean;
}

export function PlanText(props: PlanTextProps) {
  const { question, edited, isEditing } = props;
  const wasReading = useRef(!isEditing);
  const field = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  useEffect(() => {
    // A draft that comes back after a reload does not take the focus; a person who opens it does.
    if (isEditing && wasReading.current) field.current?.focus();
    wasReading.current = true;
  }, [isEditing]);
  return (
    <>
      {props.canEdit && (
        <div class="plan-tools row wrap">
          <AnswerButton
            act={props.toggleEditing}
            press="Ctrl G"
            isCurrent={props.isCurrent}
            class="small"
            isOpen={isEditing}
          >
            {isEditing ? "Read the plan" : "Edit the plan"}
          </AnswerButton>
          {props.isEdited && (
            <>
              <span class="badge busy">Edited</span>
              <AnswerButton act={() => props.setEdited(null)} isCurrent={false} class="plain small">
                Undo the edits
              </AnswerButton>
            </>
          )}
          {question.plan_file && (
            <span class="mono quiet cut" title={escapeHidden(question.plan_file)}>
              {escapeHidden(question.plan_file.split("/").pop() ?? "")}
            </span>
          )}
        </div>
      )}
      {isEditing ? (
        <>
          <label for={id} class="unseen">
            The plan, as Markdown
          </label>
          <textarea
            id={id}
            ref={field}
            class="field mono plan-editor"
            value={edited ?? question.plan ?? ""}
            spellcheck={false}
            onInput={(event) => props.setEdited(event.currentTarget.value)}
            onKeyDown={leaveOnEscape(props.toggleEditing)}
          />
        </>
      ) : (
        <Markdown isWhole text={props.isEdited ? (edited ?? "") : shownPlan(question)} />
      )}
    </>
  );
}

/** The server's text has nothing hidden in it, other than the plan as it came. */
function shownPlan(question: Question): string {
  const text = question.text || question.plan || "";
  const end = question.allowed_prompts?.length ? text.lastIndexOf(ASKED_LEAVE) : -1;
  return end < 0 ? text : text.slice(0, end);
}
