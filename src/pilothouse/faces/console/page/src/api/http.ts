/** Requests to the server: JSON in, JSON out, and every refusal as a `Refusal`. */

import { signal } from "@preact/signals";
import type { Problem } from "./types";

/** Whether this browser is signed in; null until the server has said so. */
export const signedIn = signal<boolean | null>(null);

const HEADERS = { "Pilothouse-Console": "1" };

/** What the server said no to, in its own words. */
export class Refusal extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail ?? problem.title);
  }

  get code(): string {
    return this.problem.code;
  }

  /** What to do about it, or nothing. */
  get advice(): string {
    return this.problem.advice ?? "";
  }
}

/** Nobody answered: the server is gone, or the network is. */
export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached");
  }
}

/** Whether the same may be asked again later: nobody was there, or the server was not ready. */
export function isPassing(error: unknown): boolean {
  return error instanceof Unreachable || (error instanceof Refusal && error.problem.status >= 500);
}

type Query = Record<string, string | number | boolean | null | undefined>;

export function get<T>(path: string, query: Query = {}, abort?: AbortSignal): Promise<T> {
  return send<T>("GET", path + search(query), undefined, abort);
}

/** What a path gives, as it is. */
export async function download(path: string): Promise<Blob> {
  return reached((await answered("GET", path)).blob());
}

export function post<T>(path: string, body?: unknown, query: Query = {}): Promise<T> {
  return send<T>("POST", path + search(query), body);
}

export function put<T>(path: string, body: unknown): Promise<T> {
  return send<T>("PUT", path, body);
}

export function remove<T>(path: string): Promise<T> {
  return send<T>("DELETE", path);
}

/** A part of a path: ids and names never change which path it is. */
export function part(name: string): string {
  return encodeURIComponent(name);
}

async function send<T>(method: string, path: string, body?: unknown, abort?: AbortSignal): Promise<T> {
  const response = await answered(method, path, body, abort);
  return (response.status === 204 ? undefined : await reached(response.json(), abort)) as T;
}

/** What comes from the server, whole: a connection breaks within an answer as well as before it. */
async function reached<T>(coming: Promise<T>, abort?: AbortSignal): Promise<T> {
  try {
    return await coming;
  } catch (error) {
    if (abort?.aborted) throw error;
    throw new Unreachable();
  }
}

async function answered(method: string, path: string, body?: unknown, abort?: AbortSignal): Promise<Response> {
  const request: RequestInit = { method, headers: HEADERS, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    request.headers = { ...HEADERS, "Content-Type": "application/json" };
    request.body = JSON.stringify(body);
  }
  if (abort) request.signal = abort;
  const response = await reached(fetch(path, request), abort);
  if (response.ok) return response;
  const refusal = new Refusal(await problemOf(response));
  if (response.status === 401) signedIn.value = false;
  throw refusal;
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    return (await response.json()) as Problem;
  } catch {
    return { type: "about:blank", title: response.statusText, status: response.status, code: "unknown" } as Problem;
  }
}

function search(query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  if (!given.length) return "";
  return "?" + new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
}
