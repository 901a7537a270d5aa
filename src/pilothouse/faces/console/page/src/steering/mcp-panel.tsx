/** The MCP servers of a session: how each is, its tools, and the ways to connect it again or turn it off. */

import { useState } from "preact/hooks";
import { get, part, post, put } from "../api/http";
import type { Status } from "../api/types";
import { useLoaded } from "../ui/load";
import { Failure, LoadState, PanelDialog, StartFirst } from "./panel-dialog";

interface McpServer {
  name: string;
  status?: string;
  error?: string | null;
  scope?: string | null;
  transport?: string | null;
  serverInfo?: { name?: string; version?: string } | null;
  tools?: { name: string; description?: string }[];
}

const KINDS: Record<string, string> = { connected: "good", failed: "bad", "needs-auth": "ask", pending: "busy" };

export function McpPanel(props: { id: string; status: Status; onClose: () => void }) {
  const path = `/api/sessions/${part(props.id)}/mcp`;
  const loaded = useLoaded((abort) => get<McpServer[]>(path, {}, abort), [], { isAtOnce: props.status.live });
  return (
    <PanelDialog title="MCP servers" onClose={props.onClose} class="wide">
      <StartFirst of={loaded} status={props.status} words="Start its CLI, and ask for its servers" />
      <LoadState of={loaded} words={props.status.live ? "Asking its CLI…" : "Starting its CLI to ask…"} />
      {loaded.value && !loaded.value.length && <p class="quiet">The session has no MCP servers.</p>}
      {loaded.value && loaded.value.length > 0 && (
        <ul class="server-list">
          {loaded.value.map((each) => (
            <Server key={each.name} path={path} server={each} onChange={loaded.set} />
          ))}
        </ul>
      )}
      {loaded.value && (
        <div class="row dialog-ways">
          <button class="button" disabled={loaded.isLoading} onClick={loaded.again}>
            Ask again
          </button>
        </div>
      )}
    </PanelDialog>
  );
}

function Server(props: { path: string; server: McpServer; onChange: (servers: McpServer[]) => void }) {
  const { server } = props;
  const [isBusy, setBusy] = useState(false);
  const [failed, setFailed] = useState<Error | null>(null);
  const path = `${props.path}/${part(server.name)}`;
  const isOff = server.status === "disabled";
  const change = (request: () => Promise<McpServer[]>) => {
    setBusy(true);
    setFailed(null);
    request()
      .then(props.onChange, setFailed)
      .finally(() => setBusy(false));
  };
  const tools = server.tools ?? [];
  return (
    <li>
      <div class="row wrap">
        <b class="grow">{server.name}</b>
        <span class={`badge ${KINDS[server.status ?? ""] ?? ""}`}>{server.status || "unknown"}</span>
        <button class="button" disabled={isBusy || isOff} onClick={() => change(() => post<McpServer[]>(`${path}/reconnect`))}>
          Reconnect
        </button>
        <button class="button" disabled={isBusy} onClick={() => change(() => put<McpServer[]>(path, { enabled: isOff }))}>
          {isOff ? "Turn on" : "Turn off"}
        </button>
      </div>
      <p class="small quiet">
        {[server.serverInfo?.name, server.serverInfo?.version, server.transport, server.scope].filter(Boolean).join(" · ")}
      </p>
      <Failure error={failed} />
      {server.error && <p class="wrong">{server.error}</p>}
      {tools.length > 0 && (
        <details>
          <summary class="small">{tools.length === 1 ? "1 tool" : `${tools.length} tools`}</summary>
          <dl class="facts">
            {tools.map((tool) => (
              <div key={tool.name}>
                <dt class="mono">{tool.name}</dt>
                <dd>{tool.description}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </li>
  );
}
