/** Let a machine in: its name, then its token, which is shown this once, and what to type there. */

import { useState } from "preact/hooks";
import { get, post } from "../api/http";
import type { RunnerAdded } from "../api/types";
import { CopyButton } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { toastError } from "../ui/toasts";
import { useLoaded } from "../ui/load";
import { isLoopback } from "../ui/loopback";

const NAME = "[a-z0-9][a-z0-9._\\-]{0,63}";

export function MachineAdd(props: { onClose: () => void }) {
  const [added, setAdded] = useState<RunnerAdded | null>(null);
  const title = added ? `${added.name} is let in` : "Add a machine";
  return (
    <Dialog title={title} onClose={props.onClose}>
      <div class="look-panel">
        <h2>{title}</h2>
        {added && <Steps added={added} onClose={props.onClose} />}
        {!added && <NameForm onAdded={setAdded} onClose={props.onClose} />}
      </div>
    </Dialog>
  );
}

function NameForm(props: { onAdded: (added: RunnerAdded) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [isBusy, setBusy] = useState(false);
  const add = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    post<RunnerAdded>("/api/runners", { name })
      .then(props.onAdded)
      .catch((error: unknown) => {
        toastError(error);
        setBusy(false);
      });
  };
  return (
    <form class="look-panel-form" onSubmit={add}>
      <label for="machine-name">Name</label>
      <input
        id="machine-name"
        class="field"
        required
        pattern={NAME}
        title="a to z, 0 to 9, dots, underscores and dashes; a letter or a digit first"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <p class="small quiet">How the machine is called here: a to z, 0 to 9, dots, underscores and dashes.</p>
      <div class="row wrap">
        <button class="button main" disabled={isBusy || !name}>
          Let it in
        </button>
        <button type="button" class="button" onClick={props.onClose}>
          Cancel
        </button>
      </div>
    </form>
  );
}

function Steps(props: { added: RunnerAdded; onClose: () => void }) {
  const { name, token } = props.added;
  const settings = useLoaded((abort) => get<Record<string, { value: unknown }>>("/api/settings", {}, abort), []);
  const place = address(settings.value?.hosts?.value);
  return (
    <>
      <p class="look-hint">
        The token is shown this once. Whoever has it can be this machine; if it is lost, revoke the machine
        and add it again.
      </p>
      <h3>1. Copy the token</h3>
      <CopyLine text={token} />
      <h3>2. On the machine, store it in a file for you alone</h3>
      <CopyLine text={`umask 077 && cat > ${name}.token`} />
      <p class="small quiet">
        Paste the token, then press Enter and ctrl+D. So it does not stay in the history of the shell.
      </p>
      <h3>3. Start the runner there</h3>
      <CopyLine text={`pilothouse runner --connect ${place} --token-file ${name}.token`} />
      {isLoopback(place.split("//")[1]!) && (
        <p class="small quiet">
          This page has the server's address on its own machine. From another machine use the name by which that one
          reaches the server, and serve with{" "}
          <code>--host</code> and <code>--tls-cert</code>.
        </p>
      )}
      {place.startsWith("ws:") && <p class="small quiet">Without TLS everybody on the way can read the token.</p>}
      <div class="row">
        <button class="button main" onClick={props.onClose}>
          Done
        </button>
      </div>
    </>
  );
}

/** Where other machines reach the server, as far as this page can tell. */
function address(hosts: unknown): string {
  const named = Array.isArray(hosts) && typeof hosts[0] === "string" ? hosts[0] : null;
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const isLocal = isLoopback(location.host);
  return `${scheme}://${named && isLocal ? `${named}${location.port ? `:${location.port}` : ""}` : location.host}`;
}

function CopyLine(props: { text: string }) {
  return (
    <div class="look-copy-line">
      <pre>{props.text}</pre>
      <CopyButton class="button" text={props.text} />
    </div>
  );
}
