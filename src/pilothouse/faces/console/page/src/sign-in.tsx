/** Getting in: the code of a one-time link becomes a cookie; without one, where the link is. */

import { post, signedIn, get, Refusal, Unreachable } from "./api/http";
import { useState } from "preact/hooks";

const CODE = /^#enter=([\w-]+)$/;

/** Whether the address is a one-time link: also one that was pasted while the page is open. */
export function isLink(): boolean {
  return CODE.test(location.hash);
}

/** Sign in with the code in the address, if there is one; returns why that failed, or null. */
export async function enter(): Promise<string | null> {
  const code = CODE.exec(location.hash)?.[1];
  let failed: string | null = null;
  if (code) {
    // It is of use once; the history has no need of it.
    history.replaceState(null, "", location.pathname + "#/");
    dispatchEvent(new HashChangeEvent("hashchange"));
    try {
      await post("/console/enter", { code });
    } catch (error) {
      failed = (error as Error).message;
    }
  }
  try {
    await get("/console/me");
    signedIn.value = true;
    return null;
  } catch (error) {
    if (error instanceof Unreachable) throw error;
    signedIn.value = false;
    return failed;
  }
}

export async function leave(everywhere: boolean): Promise<void> {
  await post("/console/leave", { everywhere });
  signedIn.value = false;
}

export function SignIn(props: { failed: string | null }) {
  const [pasted, setPasted] = useState("");
  const [wrong, setWrong] = useState(props.failed);
  const open = (event: Event) => {
    event.preventDefault();
    const code = /#enter=([\w-]+)/.exec(pasted)?.[1] ?? pasted.trim();
    post("/console/enter", { code })
      .then(() => (signedIn.value = true))
      .catch((error: Error) => setWrong(error instanceof Refusal ? "This link was used before, or is too old." : error.message));
  };
  return (
    <main class="welcome card">
      <h1>Pilothouse</h1>
      <p>This browser is not signed in. Type this in a terminal on the server's machine, and open the link that it prints:</p>
      <pre>pilothouse open</pre>
      <form onSubmit={open}>
        <p>
          <label for="link">Or paste a link here:</label>
        </p>
        <div class="row">
          <input id="link" class="field" autocomplete="off" value={pasted} onInput={(event) => setPasted(event.currentTarget.value)} />
          <button class="button main" disabled={!pasted.trim()}>
            Sign in
          </button>
        </div>
      </form>
      {wrong && (
        <p role="alert" class="bad">
          {wrong}
        </p>
      )}
    </main>
  );
}
