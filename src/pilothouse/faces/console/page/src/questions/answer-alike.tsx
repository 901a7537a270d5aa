/** One answer for several questions: what it means for each is listed before anything is sent. */

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Question, Way } from "../api/types";
import { rowOf } from "../state/sessions";
import { Dialog } from "../ui/dialog";
import { toast } from "../ui/toasts";
import { answerTo } from "./answering";

interface Progress {
  sent: number;
  failed: readonly { title: string; why: string }[];
  isDone: boolean;
}

export function AnswerAlike(props: { questions: readonly Question[]; close: () => void }) {
  // Those that are answered go from the list behind; what was decided on stays here.
  const [group] = useState(props.questions);
  const ways = commonWays(group);
  const [wayId, choose] = useState("");
  const [words, setWords] = useState("");
  const [progress, setProgress] = useState<Progress | null>(null);
  const way = ways.find((each) => each.id === wayId);
  const isGone = useRef(false);
  useEffect(() => () => void (isGone.current = true), []);
  const send = async () => {
    if (!way || progress) return;
    const answer = way.needs?.includes("reason") ? { ...way.answer, reason: words.trim() } : way.answer;
    const failed = await sendAll(group, answer, setProgress);
    if (!failed) props.close();
    else if (isGone.current) toast(`${failed} of ${group.length} answers were not taken`, true);
  };
  return (
    <Dialog title="Answer all alike" onClose={props.close} class="answer-alike">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <h2>Answer {group.length} questions alike</h2>
        {ways.length ? (
          <WayChoice
            ways={ways}
            chosen={wayId}
            choose={choose}
            words={words}
            setWords={setWords}
            disabled={progress !== null}
          />
        ) : (
          <p>These questions have no answer in common. Select fewer of them.</p>
        )}
        <p class="quiet small">{way ? `${verbOf(way)}, for each of these:` : "It is sent for each of these:"}</p>
        <ul class="alike-titles" tabIndex={0}>
          {group.map((each) => (
            <li key={each.id}>
              {each.title} <span class="quiet small">{rowOf(each.session_id)?.title}</span>
            </li>
          ))}
        </ul>
        {progress && <Sent progress={progress} count={group.length} />}
        <div class="row">
          {!progress?.isDone && (
            <button type="submit" class="button main" disabled={!way || progress !== null}>
              {way ? `${verbOf(way)} all ${group.length}` : "Choose an answer"}
            </button>
          )}
          <button type="button" class="button" onClick={props.close}>
            {progress ? "Close" : "Cancel"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface WayChoiceProps {
  ways: readonly Way[];
  chosen: string;
  choose: (id: string) => void;
  words: string;
  setWords: (words: string) => void;
  disabled: boolean;
}

function WayChoice(props: WayChoiceProps) {
  const id = useId();
  const needsWords = props.ways.find((way) => way.id === props.chosen)?.needs?.includes("reason");
  return (
    <fieldset disabled={props.disabled}>
      <legend class="unseen">Answer</legend>
      {props.ways.map((way) => (
        <label key={way.id} class="tick">
          <input type="radio" name={id} checked={way.id === props.chosen} onChange={() => props.choose(way.id)} />
          {way.label}
        </label>
      ))}
      {needsWords && (
        <>
          <label for={`${id}-words`}>Why not? Each model reads this. It may stay empty.</label>
          <textarea
            id={`${id}-words`}
            class="field"
            rows={2}
            value={props.words}
            onInput={(event) => props.setWords(event.currentTarget.value)}
          />
        </>
      )}
    </fieldset>
  );
}

function Sent(props: { progress: Progress; count: number }) {
  const { sent, failed } = props.progress;
  return (
    <div role="status">
      <p>
        {sent} of {props.count} sent{failed.length > 0 && `, ${failed.length} not`}
      </p>
      {failed.length > 0 && (
        <ul class="alike-failed">
          {failed.map((each, at) => (
            <li key={at}>
              {each.title}: {each.why}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** What every one of them takes and means the same for: no rule is kept, no session is left. */
function commonWays(group: readonly Question[]): Way[] {
  const [first, ...rest] = group;
  const isCommon = (way: Way) => rest.every((each) => each.ways?.some((other) => isSame(way, other)));
  return (first?.ways ?? []).filter((way) => isPlain(way) && isCommon(way));
}

/** `Deny, with a reason` is for one; of several it is said what is done. */
function verbOf(way: Way): string {
  return way.needs?.length ? (way.label.split(",")[0] ?? way.label) : way.label;
}

function isPlain(way: Way): boolean {
  const needs = way.needs ?? [];
  return needs.every((need) => need === "reason") && !way.answer.always && way.answer.kind !== "clear_context";
}

function isSame(one: Way, other: Way): boolean {
  return one.id === other.id && JSON.stringify([one.answer, one.needs]) === JSON.stringify([other.answer, other.needs]);
}

/** One after the other, so that a server with many sessions to resume is not flooded. Returns how many failed. */
async function sendAll(
  group: readonly Question[],
  answer: Way["answer"],
  tell: (progress: Progress) => void,
): Promise<number> {
  const failed: { title: string; why: string }[] = [];
  let sent = 0;
  tell({ sent, failed, isDone: false });
  for (const each of group) {
    try {
      await answerTo(each, answer);
      sent += 1;
    } catch (error) {
      failed.push({ title: each.title, why: error instanceof Error ? error.message : String(error) });
    }
    tell({ sent, failed: [...failed], isDone: sent + failed.length === group.length });
  }
  return failed.length;
}
