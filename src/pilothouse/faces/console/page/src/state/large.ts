/** What is too large for local storage, by name: images that are not sent yet. Where the browser keeps none, none are kept. */

const STORE = "kept";
let opened: Promise<IDBDatabase> | null = null;

export async function readLarge<T>(name: string): Promise<T | undefined> {
  return during("readonly", (store) => store.get(name) as IDBRequest<T>);
}

export async function keepLarge(name: string, value: unknown): Promise<void> {
  await during("readwrite", (store) => store.put(value, name));
}

export async function forgetLarge(name: string): Promise<void> {
  await during("readwrite", (store) => store.delete(name));
}

async function during<T>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> {
  try {
    const database = await (opened ??= settled(opening()));
    return await settled(act(database.transaction(STORE, mode).objectStore(STORE)));
  } catch {
    return undefined;
  }
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
