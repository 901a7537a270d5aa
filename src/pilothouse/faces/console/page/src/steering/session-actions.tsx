/** What can be done with the session that is shown: pickers, and a menu that opens the rest. */

import { useState } from "preact/hooks";
import { part, post } from "../api/http";
import type { Status, Stopped } from "../api/types";
import { archiveById } from "../sessions/row-menu";
import { Menu, type MenuEntry } from "../ui/menu";
import { useKeys } from "../ui/keys";
import { toast, toastError } from "../ui/toasts";
import { CompactDialog } from "./compact-dialog";
import { forkSession } from "./fork-dialog";
import { McpPanel } from "./mcp-panel";
import { ModelPicker, ModePicker, ThinkingPicker } from "./pickers";
import { RewindDialog } from "./rewind-dialog";
import { SessionPanel } from "./session-panel";
import { refreshStatus } from "./session-status";

type Panel = "compact" | "rewind" | "mcp" | "session";

export function SessionActions(props: { id: string; status: Status | null }) {
  const { id, status } = props;
  const [panel, setPanel] = useState<Panel | null>(null);
  const close = () => setPanel(null);
  const isForeign = status?.foreign === true;
  const isOver = status?.resumable === false && !status.live;
  useKeys("Session", [
    { press: "f", does: "Fork the session", act: () => forkSession(id) },
    { press: "i", does: "Show everything about the session", act: () => setPanel("session") },
    ...(isForeign || isOver ? [] : ownKeys(setPanel)),
  ]);
  if (!status) return null;
  const items = (): MenuEntry[] => [
    { name: "Everything about it", note: "Account, tools, agents, context, status", press: "i", act: () => setPanel("session") },
    { name: "MCP servers", disabled: isForeign || isOver, act: () => setPanel("mcp") },
    null,
    { name: "Fork", press: "f", note: "A new session with this conversation", disabled: isOver, act: () => forkSession(id) },
    { name: "Rewind files", note: "Take files back to where they were at a prompt", disabled: isForeign || isOver, act: () => setPanel("rewind") },
    { name: "Compact", note: "Summarise the conversation to make room", disabled: isForeign || isOver, act: () => setPanel("compact") },
    null,
    { name: "Stop its CLI", note: "A message starts it again", isDanger: true, disabled: !status.live || isForeign, act: () => stop(id) },
    { name: "Archive", press: "E", act: () => archiveById(id) },
  ];
  return (
    <div class="session-actions">
      {!isOver && (
        <>
          <ModePicker id={id} status={status} />
          <ModelPicker id={id} status={status} />
          <ThinkingPicker id={id} status={status} />
        </>
      )}
      <Menu label="More actions" class="button plain" align="right" face={<span aria-hidden="true">⋯</span>} items={items} />
      {panel === "compact" && <CompactDialog id={id} onClose={close} />}
      {panel === "rewind" && <RewindDialog id={id} status={status} onClose={close} />}
      {panel === "mcp" && <McpPanel id={id} status={status} onClose={close} />}
      {panel === "session" && <SessionPanel id={id} status={status} onClose={close} />}
    </div>
  );
}

function ownKeys(setPanel: (panel: Panel) => void) {
  return [
    { press: "R", does: "Rewind files", act: () => setPanel("rewind") },
    { press: "C", does: "Compact the conversation", act: () => setPanel("compact") },
    { press: "M", does: "MCP servers", act: () => setPanel("mcp") },
  ];
}

function stop(id: string): void {
  post<Stopped>(`/api/sessions/${part(id)}/stop`)
    .then((stopped) => toast(stopped.was_live ? "Its CLI was ended. A message starts it again." : "No CLI of it was alive."))
    .catch(toastError)
    .finally(() => refreshStatus(id));
}
