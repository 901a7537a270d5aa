/** The open questions of one session, above its composer: the oldest is open, the others are a line each. */

import { useState } from "preact/hooks";
import { useKeys } from "../ui/keys";
import { Announcements } from "./announcements";
import { shownQuestions } from "./answering";
import { onPage, passFocusOn } from "./card-keys";
import { QuestionCard } from "./question-card";
import { QuestionLine } from "./question-line";

export function QuestionDock(props: { sessionId: string }) {
  const all = shownQuestions(props.sessionId);
  const [chosen, choose] = useState("");
  // The next question is another one to read.
  const [folded, fold] = useState("");
  const current = all.find((each) => each.id === chosen) ?? all[0];
  const others = all.filter((each) => each !== current);
  const move = (step: number) => {
    const next = current && all[(all.indexOf(current) + step + all.length) % all.length];
    if (!next) return;
    passFocusOn();
    choose(next.id);
  };
  return (
    <div class={current ? "question-dock" : "question-dock empty"}>
      <Announcements questions={all} />
      {current && (
        <>
          {others.length > 0 && <DockKeys move={move} />}
          {others.length > 0 && (
            <details class="dock-others">
              <summary>{more(others.length)}</summary>
              {others.map((each) => (
                <QuestionLine key={each.id} question={each} where="session" open={() => choose(each.id)} />
              ))}
            </details>
          )}
          {folded === current.id ? (
            <QuestionLine question={current} where="session" open={() => fold("")} />
          ) : (
            // The conversation behind a long plan can be read without answering it.
            <QuestionCard key={current.id} question={current} isCurrent where="session" fold={() => fold(current.id)} />
          )}
        </>
      )}
    </div>
  );
}

function more(count: number): string {
  return count === 1 ? "1 more question in this session" : `${count} more questions in this session`;
}

function DockKeys(props: { move: (step: number) => void }) {
  useKeys(
    "Questions of this session",
    onPage([
      { press: "j", does: "Next question", act: () => props.move(1) },
      { press: "k", does: "Question before", act: () => props.move(-1) },
    ]),
  );
  return null;
}
