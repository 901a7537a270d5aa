/** The answers to a tool: allow, allow an edited input, always, deny with words, deny and stop. */

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Question, Way } from "../api/types";
import { link } from "../routes";
import type { Key } from "../ui/keys";
import { AlwaysPanel, AlwaysRule } from "./always-panel";
import { AnswerButton } from "./answer-button";
import { isSending, send } from "./answering";
import { CardKeys } from "./card-keys";
import { useDraft } from "./drafts";
import { InputEditor } from "./input-editor";
import { WordsField } from "./words-field";

type Panel = "" | "deny" | "edit" | "always";

interface Tool {
  question: Question;
  isCurrent: boolean;
}

/** The ways of a tool by what they are for; what the engine does not take is not there. */
interface ToolWays {
  allow?: Way;
  edit?: Way;
  always: Way[];
  deny?: Way;
  stop?: Way;
}

export function ToolAnswers(props: Tool & { children: ComponentChildren }) {
  const { question, isCurrent } = props;
  const [panel, setPanel] = useDraft<Panel>(question.id, "panel", "");
  const wasAsked = useRef(false);
  const left = useRef<Panel>("");
  const ways = waysOf(question);
  const answer = (way: Way, filled: object = {}) => void send(question, { ...way.answer, ...filled });
  const toggle = (next: Panel) => {
    wasAsked.current = true;
    left.current = panel;
    setPanel(panel === next ? "" : next);
  };
  const open = { panel, left: left.current, toggle, wasAsked: wasAsked.current, answer, ways };
  return (
    <>
      <div class="question-body" tabIndex={0} role="group" aria-label="What it wants">
        {props.children}
      </div>
      <footer class="question-foot">
        {panel ? <OpenPanel {...props} {...open} /> : <Buttons {...props} {...open} />}
      </footer>
      {isCurrent && <CardKeys name="Question" keys={keysOf(open)} />}
    </>
  );
}

interface Open {
  panel: Panel;
  /** The panel that was closed last: its button gets the focus back. */
  left: Panel;
  toggle: (panel: Panel) => void;
  wasAsked: boolean;
  answer: (way: Way, filled?: object) => void;
  ways: ToolWays;
}

function OpenPanel(props: Tool & Open) {
  const { panel, ways, answer, toggle } = props;
  const leave = () => toggle("");
  if (panel === "edit" && ways.edit)
    return <InputEditor {...props} way={ways.edit} send={(input) => answer(ways.edit!, { input })} leave={leave} />;
  if (panel === "always" && ways.always.length > 1)
    return <AlwaysPanel {...props} ways={ways.always} choose={answer} leave={leave} />;
  return <Denial {...props} />;
}

function Denial(props: Tool & Open) {
  const { question, ways, answer, toggle } = props;
  const [words, setWords] = useDraft(question.id, "reason", "");
  const reason = { reason: words.trim() };
  const isBusy = isSending(question.id);
  const deny = () => ways.deny && answer(ways.deny, reason);
  return (
    <WordsField
      label="Why not? The model reads this. It may stay empty."
      value={words}
      change={setWords}
      send={deny}
      leave={() => toggle("")}
      disabled={isBusy}
      takesFocus={props.wasAsked}
    >
      <AnswerButton act={deny} press="Enter" isCurrent class="danger" disabled={isBusy}>
        {ways.deny?.label.split(",")[0] ?? "Deny"}
      </AnswerButton>
      {ways.stop && (
        <AnswerButton act={() => answer(ways.stop!, reason)} isCurrent={false} disabled={isBusy}>
          {ways.stop.label}
        </AnswerButton>
      )}
      <AnswerButton act={() => toggle("")} press="Esc" isCurrent class="plain">
        Cancel
      </AnswerButton>
    </WordsField>
  );
}

function Buttons(props: Tool & Open) {
  const { question, isCurrent, panel, left, toggle, ways, answer } = props;
  const isBusy = isSending(question.id);
  const shared = { isCurrent, disabled: isBusy };
  const [only] = ways.always;
  return (
    <div class="question-buttons">
      {ways.allow && (
        <AnswerButton {...shared} act={() => answer(ways.allow!)} press="a" class="main thumb">
          {ways.allow.label}
        </AnswerButton>
      )}
      {ways.always.length === 1 && only && (
        <AnswerButton {...shared} act={() => answer(only)} press="A">
          Always
        </AnswerButton>
      )}
      {ways.always.length > 1 && (
        <AnswerButton
          {...shared}
          act={() => toggle("always")}
          press="A"
          isOpen={panel === "always"}
          takesFocus={left === "always"}
        >
          Always…
        </AnswerButton>
      )}
      {ways.edit && (
        <AnswerButton
          {...shared}
          act={() => toggle("edit")}
          press="e"
          isOpen={panel === "edit"}
          takesFocus={left === "edit"}
        >
          Edit first
        </AnswerButton>
      )}
      {ways.deny && (
        <AnswerButton
          {...shared}
          act={() => toggle("deny")}
          press="d"
          isOpen={panel === "deny"}
          takesFocus={left === "deny"}
          class="thumb"
        >
          {ways.deny.label.split(",")[0]}…
        </AnswerButton>
      )}
      {ways.stop && (
        <AnswerButton {...shared} act={() => answer(ways.stop!)} press="D">
          {ways.stop.label}
        </AnswerButton>
      )}
      {question.kind === "tool" && <RuleLink id={question.id} />}
      {ways.always.length === 1 && only && <AlwaysRule way={only} />}
    </div>
  );
}

/** The page of the policy finds there which question the rule is made from. */
function RuleLink(props: { id: string }) {
  const remember = () => sessionStorage.setItem("pilothouse.rule-from", props.id);
  return (
    <a class="question-rule" href={link({ view: "policy" })} onClick={remember} onAuxClick={remember}>
      Make a rule from this question
    </a>
  );
}

function waysOf(question: Question): ToolWays {
  const ways = question.ways ?? [];
  const find = (kind: string, fits: (way: Way) => boolean) => ways.find((way) => way.answer.kind === kind && fits(way));
  const allow = find("allow", (way) => !way.needs?.length && !way.answer.always);
  const edit = find("allow", (way) => way.needs?.includes("input") ?? false);
  const deny = find("deny", (way) => !way.answer.stop);
  const stop = find("deny", (way) => way.answer.stop === true);
  const always = ways.filter((way) => way.answer.kind === "allow" && way.answer.always);
  return { always, ...(allow && { allow }), ...(edit && { edit }), ...(deny && { deny }), ...(stop && { stop }) };
}

function keysOf(open: Open): Key[] {
  const { ways, answer, toggle, panel } = open;
  const keys: Key[] = [];
  const [only] = ways.always;
  // What stands in an open field is not to be passed by, so nothing is answered without it.
  if (panel) return panelKeys(open);
  if (ways.allow) keys.push({ press: "a", does: ways.allow.label, act: () => answer(ways.allow!) });
  if (only && ways.always.length === 1) keys.push({ press: "A", does: only.label, act: () => answer(only) });
  if (ways.always.length > 1) keys.push({ press: "A", does: "Always allow", act: () => toggle("always") });
  if (ways.edit) keys.push({ press: "e", does: "Edit the input first", act: () => toggle("edit") });
  if (ways.deny) keys.push({ press: "d", does: "Deny, with words", act: () => toggle("deny") });
  if (ways.stop) keys.push({ press: "D", does: ways.stop.label, act: () => answer(ways.stop!) });
  return keys;
}

function panelKeys(open: Open): Key[] {
  const leave: Key = { press: "Escape", does: "Leave the field", act: () => open.toggle(""), inFields: true };
  if (open.panel !== "always") return [leave];
  const places = open.ways.always.map((way, at) => ({
    press: String(at + 1),
    does: way.label,
    act: () => open.answer(way),
  }));
  return [...places, leave];
}
