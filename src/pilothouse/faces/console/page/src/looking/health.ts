/** How the server is, also where it says that it is not well. */

import { get, Refusal } from "../api/http";
import type { Health } from "../api/types";

export async function readHealth(abort?: AbortSignal): Promise<Health> {
  try {
    return await get<Health>("/healthz", {}, abort);
  } catch (error) {
    // A server in trouble answers 503, with its health in place of a problem.
    if (error instanceof Refusal && "ok" in error.problem) return error.problem as unknown as Health;
    throw error;
  }
}
