/** What happens to the questions, for those who hear the page: a new one is told once, and so is what was done. */

import { useEffect, useState } from "preact/hooks";
import type { Question } from "../api/types";
import { link, route } from "../routes";
import { lastDone, newSession } from "./answering";

const told = new Set<string>();

/** New ones are told; those that were there when the view was opened are read with it. */
export function Announcements(props: { questions: readonly Question[] }) {
  const [words, say] = useState("");
  const [isFirst, setFirst] = useState(true);
  const ids = props.questions.map((each) => each.id).join(" ");
  useEffect(() => {
    const fresh = props.questions.filter((each) => !told.has(each.id));
    for (const each of fresh) told.add(each.id);
    if (!isFirst && fresh.length) {
      say(fresh.length === 1 ? `New question: ${fresh[0]!.title}` : `${fresh.length} new questions`);
    }
    setFirst(false);
  }, [ids]);
  return (
    <>
      <p class="unseen" role="status">
        {words}
      </p>
      <p class="unseen" role="status">
        {lastDone.value}
      </p>
      <NewSession />
    </>
  );
}

/** After a plan was taken to a new session: where it goes on. */
function NewSession() {
  const id = newSession.value;
  const at = route.value;
  if (!id || (at.view === "session" && at.id === id)) return null;
  const close = () => (newSession.value = null);
  return (
    <p class="question-notice" role="status">
      <span class="grow">
        The plan is implemented in a new session.{" "}
        <a href={link({ view: "session", id })} onClick={close}>
          Open it
        </a>
      </span>
      <button type="button" class="button plain" onClick={close}>
        Close
      </button>
    </p>
  );
}
