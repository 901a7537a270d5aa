/** Where a rule can be kept so that the like is not asked again, each with the rule as it would be. */

import { useEffect, useRef } from "preact/hooks";
import type { Question, Way } from "../api/types";
import { AnswerButton } from "./answer-button";
import { isSending } from "./answering";

const PLACES: Record<string, [place: string, file: string]> = {
  true: ["In this session", "nothing is written to a file"],
  localSettings: ["In this project, for you", ".claude/settings.local.json"],
  projectSettings: ["In this project, for everybody", ".claude/settings.json"],
  userSettings: ["In all your projects", "~/.claude/settings.json"],
};

interface AlwaysPanelProps {
  question: Question;
  isCurrent: boolean;
  wasAsked: boolean;
  ways: readonly Way[];
  choose: (way: Way) => void;
  leave: () => void;
}

export function AlwaysPanel(props: AlwaysPanelProps) {
  const own = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!props.wasAsked) return;
    own.current?.querySelector("button")?.focus({ preventScroll: true });
    own.current?.scrollIntoView({ block: "nearest" });
  }, []);
  const rules = new Set(props.ways.map(ruleOf));
  const [first] = rules;
  return (
    <div class="question-panel" ref={own} role="group" aria-label="Always allow">
      <p>
        Always allow
        {rules.size === 1 && <code class="question-rule-text">{first}</code>}
      </p>
      <div class="always-ways">
        {props.ways.map((way, at) => (
          <button
            key={way.id}
            type="button"
            class="button way"
            disabled={isSending(props.question.id)}
            onClick={() => props.choose(way)}
          >
            {props.isCurrent && <kbd aria-hidden="true">{at + 1}</kbd>}
            <span class="grow">
              {placeOf(way)[0]} <span class="quiet small">{placeOf(way)[1]}</span>
              {rules.size > 1 && <code class="question-rule-text">{ruleOf(way)}</code>}
            </span>
          </button>
        ))}
      </div>
      <div class="row">
        <AnswerButton act={props.leave} press="Esc" isCurrent={props.isCurrent} class="plain">
          Cancel
        </AnswerButton>
      </div>
    </div>
  );
}

/** The one rule there is, below its button. */
export function AlwaysRule(props: { way: Way }) {
  return (
    <p class="always-rule">
      <span class="quiet">Always, {placeOf(props.way)[0].toLowerCase()}:</span> <code>{ruleOf(props.way)}</code>
    </p>
  );
}

function placeOf(way: Way): [place: string, file: string] {
  return PLACES[String(way.answer.always)] ?? [way.label, ""];
}

/** The server's words have the rule behind the place. */
function ruleOf(way: Way): string {
  const at = way.label.indexOf(": ");
  return at < 0 ? way.label : way.label.slice(at + 2);
}
