/** What a view reads from the server: the value once it has come, why it did not, and a way to read again. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Loaded<T> {
  /** The last that came; it stays while it is read again. */
  value: T | null;
  error: Error | null;
  isLoading: boolean;
  again: () => void;
}

export function useLoaded<T>(load: (abort: AbortSignal) => Promise<T>, deps: readonly unknown[]): Loaded<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isLoading, setLoading] = useState(true);
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
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
  return { value, error, isLoading, again: useCallback(() => setTurn((count) => count + 1), []) };
}

/** Do it again and again while the page is looked at. */
export function useEvery(ms: number, act: () => void): void {
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && act(), ms);
    return () => clearInterval(timer);
  }, [ms, act]);
}
