/** Sends answers, and lets a question that was settled elsewhere stay for a moment, to say why it goes. */

import { effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, part, post, Refusal } from "../api/http";
import type { Answered, Question } from "../api/types";
import { listed, questions } from "../state/sessions";
import { toast, toastError } from "../ui/toasts";
import { noteAnswer, passFocusOn } from "./card-keys";
import { forgetDraft } from "./drafts";
import { ownName } from "../ui/own-name";
import { done, outcome } from "./outcomes";

/** A way's `answer`, with what it needs. */
export type AnswerBody = Readonly<Record<string, unknown>>;

interface Lingering {
  question: Question;
  /** How it was settled; empty until the server has said so. */
  words: string;
}

const LINGERS_MS = 3000;

const sending = signal<ReadonlySet<string>>(new Set());
// The stream tells a moment later that they are answered, and until then they are still among the open ones.
const answeredHere = signal<ReadonlySet<string>>(new Set());
const lingering = signal<ReadonlyMap<string, Lingering>>(new Map());

/** What was done last, for those who do not see the card go. */
export const lastDone = signal("");
/** The session that implements a plan with an empty context, until it was seen. */
export const newSession = signal<string | null>(null);

export function isSending(id: string): boolean {
  return sending.value.has(id);
}

/** How it was settled elsewhere; undefined: it was not. */
export function settledWords(id: string): string | undefined {
  return lingering.value.get(id)?.words;
}

/** The questions to show, the oldest first: the open ones and those that are just going. */
export function shownQuestions(sessionId?: string): Question[] {
  const going = lingering.value;
  const shown = questions.value.filter((each) => !answeredHere.value.has(each.id) && !going.has(each.id));
  for (const each of going.values()) shown.push(each.question);
  return shown
    .filter((each) => sessionId === undefined || each.session_id === sessionId)
    .sort((a, b) => (a.opened_at ?? 0) - (b.opened_at ?? 0));
}

/** Send an answer, and say what was refused. */
export async function send(question: Question, answer: AnswerBody): Promise<void> {
  if (sending.peek().has(question.id) || lingering.peek().has(question.id)) return;
  try {
    await answerTo(question, answer);
  } catch (error) {
    if (!isSettled(error)) toastError(error);
  }
}

/** Send an answer; whoever calls says what was refused. */
export async function answerTo(question: Question, answer: AnswerBody): Promise<void> {
  const { id } = question;
  sending.value = new Set(sending.peek()).add(id);
  noteAnswer();
  // The stream may take the card away before the answer to this comes.
  passFocusOn();
  try {
    const told = await post<Answered>(`/api/questions/${part(id)}/answer`, answer, { by: ownName.peek() || null });
    passFocusOn();
    answeredHere.value = new Set(answeredHere.peek()).add(id);
    forgetDraft(id);
    lastDone.value = `${done(answer)}: ${question.title}`;
    if (told.new_session_id) newSession.value = told.new_session_id;
    else if (told.resumed) toast("Its CLI had ended. The session resumes with your answer.");
  } catch (error) {
    if (isSettled(error)) linger(error.problem.question ?? question);
    throw error;
  } finally {
    sending.value = without(sending.peek(), id);
  }
}

export function isSettled(error: unknown): error is Refusal {
  return error instanceof Refusal && error.code === "question-settled";
}

const looked = new Map<string, number>();

/** Somebody looks at this question: if it goes, it says why. */
export function useLooked(id: string): void {
  useEffect(() => {
    looked.set(id, (looked.get(id) ?? 0) + 1);
    return () => {
      const count = (looked.get(id) ?? 1) - 1;
      if (count) looked.set(id, count);
      else looked.delete(id);
    };
  }, [id]);
}

let before: readonly Question[] = [];
effect(() => {
  const open = new Set(questions.value.map((each) => each.id));
  // After signing out nothing is listed, which says nothing about the questions.
  if (listed.value) {
    for (const each of before) {
      if (!open.has(each.id) && looked.has(each.id) && !answeredHere.peek().has(each.id)) void learnWhy(each);
    }
  }
  before = questions.value;
});

/** The stream says only that a question is gone; the server knows why. */
async function learnWhy(question: Question): Promise<void> {
  const { id } = question;
  if (lingering.peek().has(id) || sending.peek().has(id)) return;
  lingering.value = new Map(lingering.peek()).set(id, { question, words: "" });
  try {
    const now = await get<Question>(`/api/questions/${part(id)}`);
    if (now.decidable === false) linger(now);
    else lingering.value = withoutKey(lingering.peek(), id);
  } catch (error) {
    // Its session may be gone with it. Where the server is away nobody knows yet: what was typed for it stays.
    if (error instanceof Refusal) linger({ ...question, state: "withdrawn", closed_because: "the server has it no more" });
    else setTimeout(() => letGo(id), LINGERS_MS);
  }
}

function linger(question: Question): void {
  const { id } = question;
  lingering.value = new Map(lingering.peek()).set(id, { question, words: outcome(question) });
  forgetDraft(id);
  setTimeout(() => {
    answeredHere.value = new Set(answeredHere.peek()).add(id);
    letGo(id);
  }, LINGERS_MS);
}

function letGo(id: string): void {
  lingering.value = withoutKey(lingering.peek(), id);
}

function without(all: ReadonlySet<string>, id: string): Set<string> {
  const next = new Set(all);
  next.delete(id);
  return next;
}

function withoutKey<T>(all: ReadonlyMap<string, T>, id: string): Map<string, T> {
  const next = new Map(all);
  next.delete(id);
  return next;
}
