/**
 * What is too large for local storage, by name: images that are not sent yet. Where the browser keeps none, none are
 * kept. What one tab changes, the others are told of.
 */

const STORE = "kept";
const tabs = new BroadcastChannel("pilothouse.large");
let opened: Promise<IDBDatabase> | null = null;

export async function readLarge<T>(name: string): Promise<T | undefined> {
  try {
    return await during("readonly", (store) => store.get(name) as IDBRequest<T>);
  } catch {
    return undefined;
  }
}

export async function keepLarge(name: string, value: unknown): Promise<void> {
  await change(name, (store) => store.put(value, name));
}

export async function forgetLarge(name: string): Promise<void> {
  await change(name, (store) => store.delete(name));
}

/** Be told the name of what another tab has kept or forgotten. */
export function onLarge(listener: (name: string) => void): void {
  tabs.addEventListener("message", (event: MessageEvent<string>) => listener(event.data));
}

async function change(name: string, act: (store: IDBObjectStore) => IDBRequest): Promise<void> {
  try {
    await during("readwrite", act);
    tabs.postMessage(name);
  } catch {
    // The page has it as long as it is open.
  }
}

async function during<T>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const database = await (opened ??= settled(opening()));
  return settled(act(database.transaction(STORE, mode).objectStore(STORE)));
}

function opening(): IDBOpenDBRequest {
  const request = indexedDB.open("pilothouse", 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE);
  return request;
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser keeps nothing"));
  });
}
