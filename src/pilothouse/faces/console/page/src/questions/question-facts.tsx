/** The circumstances of a question: who asks and where, why, until when, and what an answer will do. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { Question } from "../api/types";
import { link } from "../routes";
import { refreshStatus, statusOf } from "../conversation/session-status";
import { rowOf } from "../state/sessions";
import { escapeHidden } from "../ui/hidden";
import { lookUp } from "../ui/lookup";
import { clockTime, dateTime, duration, now, span } from "../ui/time";

const REASONS: Record<string, string> = {
  rule: "a rule of Claude Code",
  mode: "the permission mode",
  hook: "a hook",
  workingDir: "a path outside of the working directory",
  safetyCheck: "a safety check",
  classifier: "the classifier",
  subcommandResults: "a part of the command",
  permissionPromptTool: "the permission tool",
  asyncAgent: "an agent in the background",
  sandboxOverride: "a command outside of the sandbox",
};

/** Below this much time left the countdown is urgent. */
const URGENT_MS = 60_000;

/** The session that asks: its title, its directory, its machine. */
export function QuestionOrigin(props: { question: Question }) {
  const { question } = props;
  const row = rowOf(question.session_id);
  const cwd = question.cwd ?? row?.cwd;
  return (
    <p class="question-origin">
      <a href={link({ view: "session", id: question.session_id })}>{escapeHidden(row?.title || "Untitled session")}</a>
      {cwd && (
        <span class="mono cut" title={escapeHidden(cwd)}>
          {escapeHidden(cwd)}
        </span>
      )}
      {question.label && <span class="badge">{escapeHidden(question.label)}</span>}
      {row?.machine && <a href={link({ view: "machines" })}>{row.machine}</a>}
    </p>
  );
}

export function QuestionAge(props: { question: Question }) {
  const { opened_at: opened = 0, expires_at: expires } = props.question;
  const left = expires ? expires - now.value : null;
  return (
    <span class="question-age">
      {left !== null && (
        <span class={left < URGENT_MS ? "badge bad" : "badge"} role="timer">
          {left > 0 ? `Expires in ${countdown(left)}` : "Expires now"}
        </span>
      )}
      {opened > 0 && (
        <time dateTime={new Date(opened).toISOString()} title={`Asked ${dateTime(opened)}`}>
          {span(now.value - opened)}
          <span class="unseen"> ago</span>
        </time>
      )}
    </span>
  );
}

/** As a duration, but the last seconds are whole ones too. */
function countdown(left: number): string {
  const seconds = Math.max(1, Math.round(left / 1000));
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
}

/** Why it asks, as rows of a name and words; nothing where the CLI said nothing. */
export function QuestionFacts(props: { question: Question }) {
  const { question } = props;
  const because = lookUp(REASONS, question.reason_type ?? "");
  return (
    <>
      <dl class="question-facts">
        {question.agent_id && (
          <Fact name="Asked by">
            <AgentName question={question} id={question.agent_id} />
          </Fact>
        )}
        {(question.reason || because) && (
          <Fact name="Why">
            {question.reason}
            {because && (
              <span class="quiet">{question.reason ? ` (because of ${because})` : `Because of ${because}`}</span>
            )}
          </Fact>
        )}
        {question.blocked_path && (
          <Fact name="Path">
            <span class="mono">{question.blocked_path}</span>
          </Fact>
        )}
        {question.matched_rule && (
          <Fact name="CLI rule">
            <span class="mono">{question.matched_rule}</span> says to ask
          </Fact>
        )}
        {question.rule && (
          <Fact name="Policy">
            the rule <a href={link({ view: "policy" })}>{question.rule}</a> says to ask
          </Fact>
        )}
      </dl>
      <Consequence question={question} />
    </>
  );
}

function Fact(props: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

/** A sub-agent by its type, which its running tool tells, and its task, once the session's status was read. */
function AgentName(props: { question: Question; id: string }) {
  const { question, id } = props;
  const { session_id: sessionId } = question;
  useEffect(() => refreshStatus(sessionId), [sessionId, id]);
  const status = statusOf(sessionId).value;
  const type = status?.running_tools?.find((each) => each.id === question.tool_use_id)?.agent;
  const task = status?.subagents?.find((each) => each.id === id)?.description;
  return (
    <>
      {type && type !== id ? (
        <span class="badge busy" title={escapeHidden(id)}>
          {escapeHidden(type)}
        </span>
      ) : (
        <span title={id}>a sub-agent</span>
      )}
      {task && `: ${escapeHidden(task)}`}
    </>
  );
}

/** What becomes of the question if nobody answers, and of an answer: it depends on the CLI that asked. */
function Consequence(props: { question: Question }) {
  const { question } = props;
  const { expires_at: expires } = question;
  const [words, isUsual] = answerDoes(question);
  return (
    <p class={isUsual ? "question-consequence small quiet" : "question-note"}>
      {words}
      {expires && question.state === "open" && (
        <>
          {" "}
          Unanswered, it expires at {clockTime(expires)}: {EXPIRES[question.kind]}.
        </>
      )}
    </p>
  );
}

const EXPIRES: Record<Question["kind"], string> = {
  tool: "the tool is then denied",
  plan: "the plan is then rejected",
  questions: "the model then goes on without an answer",
  elicitation: "the form is then dismissed",
};

/** And whether that is what everybody expects. */
function answerDoes(question: Question): [words: string, isUsual: boolean] {
  const row = rowOf(question.session_id);
  if (question.foreign) return ["Asked by a CLI that the server did not start. It waits for your answer.", false];
  if (question.state === "withdrawn" || row?.live === false)
    return [
      "Its CLI has ended. Your answer is told to the session as a message, and the session resumes with it.",
      false,
    ];
  return ["Its CLI is running, and goes on as soon as you answer.", true];
}
