/** All open questions of all sessions: one is current and open, keys go through them, several can be answered alike. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Question } from "../api/types";
import { useKeys } from "../ui/keys";
import { Announcements } from "./announcements";
import { AnswerAlike } from "./answer-alike";
import { shownQuestions } from "./answering";
import { onPage, passFocusOn } from "./card-keys";
import { QuestionCard } from "./question-card";
import { QuestionLine } from "./question-line";

export function QuestionList() {
  const all = shownQuestions();
  const [current, setCurrent] = useCurrent(all);
  const [selected, select] = useState<ReadonlySet<string>>(new Set());
  const [isAnswering, setAnswering] = useState(false);
  const group = all.filter((each) => selected.has(each.id));
  const toggle = (id: string) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    select(next);
  };
  const answer = () => setAnswering(true);
  const move = (step: number) => {
    const at = all.findIndex((each) => each.id === current);
    const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
    if (!next) return;
    passFocusOn();
    setCurrent(next.id);
  };
  return (
    <div class="question-list">
      <Announcements questions={all} />
      {all.length > 0 && (
        <ListKeys move={move} select={() => toggle(current)} alike={group.length > 1 ? answer : null} />
      )}
      {all.length > 1 && <GroupBar all={all} group={group} select={select} answer={answer} />}
      <ul class="question-rows">
        {all.map((each) => (
          <li key={each.id} class={each.id === current ? "current" : ""}>
            {all.length > 1 && (
              <label class="question-tick">
                <span class="unseen">Select: {each.title}</span>
                <input type="checkbox" checked={selected.has(each.id)} onChange={() => toggle(each.id)} />
              </label>
            )}
            {each.id === current ? (
              <QuestionCard question={each} isCurrent where="inbox" />
            ) : (
              <QuestionLine question={each} where="inbox" open={() => setCurrent(each.id)} />
            )}
          </li>
        ))}
      </ul>
      {isAnswering && (
        <AnswerAlike
          questions={group}
          close={() => {
            setAnswering(false);
            select(new Set());
          }}
        />
      )}
    </div>
  );
}

/** The one that is open. When it goes, the one that stood behind it takes its place. */
function useCurrent(all: readonly Question[]): [string, (id: string) => void] {
  const [chosen, choose] = useState("");
  const place = useRef(0);
  const at = all.findIndex((each) => each.id === chosen);
  const current = all[at >= 0 ? at : Math.min(place.current, all.length - 1)]?.id ?? "";
  useEffect(() => {
    place.current = Math.max(0, all.findIndex((each) => each.id === current));
    if (current !== chosen) choose(current);
  });
  return [current, choose];
}

interface GroupBarProps {
  all: readonly Question[];
  group: readonly Question[];
  select: (ids: ReadonlySet<string>) => void;
  answer: () => void;
}

function GroupBar(props: GroupBarProps) {
  const { all, group } = props;
  const isAll = group.length === all.length;
  return (
    <div class="question-group row wrap">
      <label class="tick">
        <input
          type="checkbox"
          checked={isAll}
          onChange={() => props.select(isAll ? new Set() : new Set(all.map((each) => each.id)))}
        />
        {group.length ? `${group.length} of ${all.length} selected` : `Select all ${all.length}`}
      </label>
      {group.length > 1 && (
        <button type="button" class="button" onClick={props.answer}>
          Answer all alike <kbd aria-hidden="true">X</kbd>
        </button>
      )}
    </div>
  );
}

function ListKeys(props: { move: (step: number) => void; select: () => void; alike: (() => void) | null }) {
  useKeys(
    "Questions",
    onPage([
      { press: "j", does: "Next question", act: () => props.move(1) },
      { press: "k", does: "Question before", act: () => props.move(-1) },
      { press: "x", does: "Select the question, or no longer", act: props.select },
      ...(props.alike ? [{ press: "X", does: "Answer all selected alike", act: props.alike }] : []),
    ]),
  );
  return null;
}
