/** What a view reads from the server: the value once it has come, why it did not, and a way to read again. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

/** How it is with the reading of something. */
export interface Loading<T = unknown> {
  /** The last that came; it stays while it is read again. */
  value: T | null;
  error: Error | null;
  isLoading: boolean;
  again: () => void;
}

export interface Loaded<T> extends Loading<T> {
  /** Have another value, as what an action gave back. */
  set: (value: T) => void;
}

interface LoadOptions {
  /** False: nothing is read before `again` is called. */
  isAtOnce?: boolean;
}

export function useLoaded<T>(
  load: (abort: AbortSignal) => Promise<T>,
  deps: readonly unknown[],
  { isAtOnce = true }: LoadOptions = {},
): Loaded<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isLoading, setLoading] = useState(isAtOnce);
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (!isAtOnce && !turn) return;
    const abort = new AbortController();
    setLoading(true);
    latest
      .current(abort.signal)
      .then((come) => {
        if (abort.signal.aborted) return;
        setValue(() => come);
        setError(null);
      })
      .catch((failed: Error) => !abort.signal.aborted && setError(failed))
      .finally(() => !abort.signal.aborted && setLoading(false));
    return () => abort.abort();
  }, [...deps, turn]);
  const again = useCallback(() => setTurn((count) => count + 1), []);
  const set = useCallback((next: T) => setValue(() => next), []);
  return { value, error, isLoading, again, set };
}

/** Do it again and again while the page is looked at. */
export function useEvery(ms: number, act: () => void): void {
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && act(), ms);
    return () => clearInterval(timer);
  }, [ms, act]);
}

/** Do it each time that somebody comes back to the page. */
export function useReturn(act: () => void): void {
  useEffect(() => {
    const look = () => document.hidden || act();
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, [act]);
}
