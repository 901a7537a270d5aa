/** What became of a question, in words. */

import type { Question } from "../api/types";
import { ownName } from "../ui/own-name";

const DONE: Record<string, string> = {
  allow: "Allowed",
  deny: "Denied",
  choose: "Answered",
  skip: "Skipped",
  approve_plan: "Approved",
  revise_plan: "Sent back to be revised",
  reject_plan: "Rejected",
  clear_context: "Approved, in a new session",
  fill: "Filled in",
  decline: "Declined",
  dismiss: "Dismissed",
};

/** How it was settled by somebody else: `Allowed by ops in another place`. */
export function outcome(question: Question): string {
  switch (question.state) {
    case "answered":
      return `${done(question.answer ?? {})}${by(question)}`;
    case "withdrawn":
      return `Withdrawn: ${question.closed_because ?? "the CLI no longer asks"}`;
    case "expired":
      return `Expired: ${question.closed_because ?? "nobody answered in time"}`;
    case "open":
      return "It takes no answer any more";
  }
}

/** What an answer does, as a past participle. */
export function done(answer: { kind?: unknown }): string {
  return DONE[String(answer.kind)] ?? "Answered";
}

function by(question: Question): string {
  const name = question.answered_by;
  if (name === "policy") return question.rule ? ` by the policy's rule “${question.rule}”` : " by the policy";
  if (!name || name === "person") return " by a person in another place";
  if (name === ownName.peek()) return " by you in another place";
  return ` by ${name} in another place`;
}
