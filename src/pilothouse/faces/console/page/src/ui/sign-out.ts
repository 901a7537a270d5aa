/** The way out, from wherever it is offered. */

import { useState } from "preact/hooks";
import { leave } from "../sign-in";
import { toastError } from "./toasts";

export function useSignOut() {
  const [isBusy, setBusy] = useState(false);
  const signOut = (everywhere: boolean) => {
    setBusy(true);
    leave(everywhere)
      .catch(toastError)
      .finally(() => setBusy(false));
  };
  return { isBusy, signOut };
}
