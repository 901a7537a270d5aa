/** What all of a session's time went into. */

import { useEffect } from "preact/hooks";
import { get, part } from "../api/http";
import type { Timeline as Told } from "../api/types";
import { useLoaded } from "../ui/load";
import { Pending } from "../looking/page";
import { Timeline } from "../looking/timeline";
import type { Conversation } from "../state/conversation";
import { now } from "../ui/time";

/** However fast items come, it is not read more often. */
const REST_MS = 2000;

interface Read {
  told: Told;
  at: number;
}

export function TimelinePanel(props: { conversation: Conversation }) {
  const { conversation } = props;
  const read = useLoaded((abort) => readTimeline(conversation.sessionId, abort), [conversation]);
  useEffect(() => whenMoreCome(conversation, read.again), [conversation]);
  return (
    <div class="session-timeline">
      <Pending of={read} />
      {read.value && <Current {...read.value} />}
    </div>
  );
}

/** A session at rest is not drawn anew every second. */
function Current({ told, at }: Read) {
  return <Timeline of={told} grown={told.is_going_on ? now.value - at : 0} />;
}

async function readTimeline(session: string, abort: AbortSignal): Promise<Read> {
  const told = await get<Told>(`/api/sessions/${part(session)}/timeline`, {}, abort);
  return { told, at: Date.now() };
}

function whenMoreCome(conversation: Conversation, again: () => void): () => void {
  let timer = 0;
  const stop = conversation.arrivals.subscribe((count) => {
    if (count && !timer) timer = window.setTimeout(() => ((timer = 0), again()), REST_MS);
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}
