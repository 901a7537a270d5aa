/** A plan to read, to edit and to decide on: the ways out of plan mode, each with its number. */

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Question, Way } from "../api/types";
import type { Key } from "../ui/keys";
import { AnswerButton } from "./answer-button";
import { isSending, send } from "./answering";
import { CardKeys, focusCard, focusIsFree } from "./card-keys";
import { useDraft } from "./drafts";
import { PlanText } from "./plan-text";
import { PlanWords } from "./plan-words";

/** The order in which Claude Code offers them, which people have in their fingers; then what only the engine has. */
const ORDER = ["clear_context", "accept_edits", "ask_edits", "revise_plan", "approve_and_compact"];
const LAST = ["reject_plan", "reject_and_stop", "bypass", "clear_context_and_bypass"];
/** These approve the plan, so they can do it with another text. */
const TAKES_TEXT = new Set<unknown>(["approve_plan", "clear_context"]);

interface PlanProps {
  question: Question;
  isCurrent: boolean;
}

export function PlanAnswers(props: PlanProps & { facts: ComponentChildren }) {
  const { question, isCurrent } = props;
  const [edited, setEdited] = useDraft<string | null>(question.id, "plan", null);
  const [isEditing, setEditing] = useDraft(question.id, "isEditing", false);
  const [wordsFor, setWordsFor] = useDraft(question.id, "wordsFor", "");
  const wasAsked = useRef(false);
  const ways = planWays(question);
  const isEdited = edited !== null && edited !== question.plan;
  const choose = (way: Way) => {
    if (way.needs?.length) {
      wasAsked.current = true;
      setWordsFor(way.id);
    } else void send(question, withText(way, isEdited ? edited : null));
  };
  const canEdit = question.ways?.some((way) => way.needs?.includes("plan")) ?? false;
  const toggleEditing = () => {
    if (isEditing) focusCard();
    setEditing(!isEditing);
  };
  const text = { edited, setEdited, isEdited, isEditing, toggleEditing, canEdit };
  const editKeys: Key[] = canEdit
    ? [{ press: "ctrl+g", does: "Edit the plan, or read it again", act: toggleEditing, inFields: true }]
    : [];
  const leave = () => {
    focusCard();
    setWordsFor("");
  };
  const asking = ways.find((way) => way.id === wordsFor);
  const emptied = isEdited && !edited.trim();
  const answerKeys = asking ? leaveKeys(leave) : keysOf(ways, choose, emptied);
  return (
    <>
      <div class="question-body" tabIndex={0} role="group" aria-label="The plan">
        <PlanText question={question} isCurrent={isCurrent} {...text} />
        <AskedLeave question={question} />
        {props.facts}
      </div>
      <footer class="question-foot">
        {emptied && <p class="question-wrong">The edited plan is empty. Write one, or undo the edits.</p>}
        {asking ? (
          <PlanWords key={asking.id} question={question} way={asking} wasAsked={wasAsked.current} leave={leave} />
        ) : (
          <Ways {...props} ways={ways} isEdited={isEdited} emptied={emptied} choose={choose} />
        )}
      </footer>
      {isCurrent && <CardKeys name="Plan" keys={[...answerKeys, ...editKeys]} />}
    </>
  );
}

/** What the plan wants leave for: it comes with an approval. */
function AskedLeave(props: { question: Question }) {
  const asked = props.question.allowed_prompts ?? [];
  if (!asked.length) return null;
  return (
    <section class="asked-leave">
      <h3>If you approve it, this session may also</h3>
      <ul>
        {asked.map((each, at) => (
          <li key={at}>
            <span class="badge">{String(each.tool)}</span> {String(each.prompt)}
          </li>
        ))}
      </ul>
    </section>
  );
}

interface WaysProps extends PlanProps {
  ways: readonly Way[];
  isEdited: boolean;
  emptied: boolean;
  choose: (way: Way) => void;
}

function Ways(props: WaysProps) {
  const { ways, isCurrent, choose } = props;
  const isBusy = isSending(props.question.id);
  // Only a phone has no room for all of them; elsewhere they are always there.
  const [isOpen, open] = useState(false);
  return (
    <>
      <ol class={isOpen ? "plan-ways open" : "plan-ways"} aria-label="Ways to answer">
        {ways.map((way, at) => (
          <li key={way.id}>
            <button
              type="button"
              class={way.id === "accept_edits" ? "button way chief" : "button way"}
              disabled={isBusy || (props.emptied && TAKES_TEXT.has(way.answer.kind))}
              aria-expanded={way.needs?.length ? false : undefined}
              onClick={() => choose(way)}
            >
              {isCurrent && <kbd aria-hidden="true">{at + 1}</kbd>}
              <span class="grow">
                {labelOf(way)}
                {props.isEdited && TAKES_TEXT.has(way.answer.kind) && <span class="badge busy">as edited</span>}
              </span>
              {isCurrent && letterOf(way, at) && <kbd aria-hidden="true">{letterOf(way, at)}</kbd>}
            </button>
          </li>
        ))}
      </ol>
      <div class="question-buttons only-phone">
        <AnswerButton isCurrent={false} act={() => open(!isOpen)} isOpen={isOpen} class="plain small">
          {isOpen ? "Fewer ways" : "All ways to answer"}
        </AnswerButton>
        {ways
          .filter((way) => way.id === "accept_edits" || way.id === "revise_plan")
          .map((way) => (
            <AnswerButton
              key={way.id}
              isCurrent={false}
              act={() => choose(way)}
              class={way.id === "accept_edits" ? "main thumb" : "thumb"}
              disabled={isBusy}
            >
              {way.id === "accept_edits" ? "Approve, accept edits" : "Keep planning…"}
            </AnswerButton>
          ))}
      </div>
    </>
  );
}

/** In the order of a terminal. An edited plan goes with any approval, so it is no way of its own. */
function planWays(question: Question): Way[] {
  const place = (way: Way) => {
    const first = ORDER.indexOf(way.id);
    return first >= 0 ? first : ORDER.length + 1 + LAST.indexOf(way.id);
  };
  return (question.ways ?? []).filter((way) => !way.needs?.includes("plan")).sort((a, b) => place(a) - place(b));
}

function withText(way: Way, plan: string | null): Record<string, unknown> {
  return plan !== null && TAKES_TEXT.has(way.answer.kind) ? { ...way.answer, plan } : way.answer;
}

function labelOf(way: Way): string {
  if (way.answer.kind !== "revise_plan") return way.label;
  return `Keep planning: ${way.label.charAt(0).toLowerCase()}${way.label.slice(1)}`;
}

/** Some ways have a letter too, the same as on every other card. */
function letterOf(way: Way, at: number): string | undefined {
  if (at === 0 && way.answer.mode === "acceptEdits") return "Shift Tab";
  return { accept_edits: "a", revise_plan: "d", reject_and_stop: "D" }[way.id];
}

function leaveKeys(leave: () => void): Key[] {
  return [{ press: "Escape", does: "Leave the field", act: leave, inFields: true }];
}

function keysOf(ways: readonly Way[], choose: (way: Way) => void, emptied: boolean): Key[] {
  const able = (way: Way) => () => !(emptied && TAKES_TEXT.has(way.answer.kind)) && choose(way);
  const keys: Key[] = [];
  for (const [at, way] of ways.slice(0, 9).entries()) {
    keys.push({ press: String(at + 1), does: labelOf(way), act: able(way) });
    const letter = letterOf(way, at);
    // Where a control has the focus, shift and Tab go back to the one before it, as everywhere.
    const isTab = letter === "Shift Tab";
    if (!letter || (isTab && !focusIsFree.value)) continue;
    keys.push({ press: isTab ? "shift+Tab" : letter, does: labelOf(way), act: able(way) });
  }
  return keys;
}
