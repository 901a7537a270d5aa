/** What can be done with a session from its row. */

import { go, link } from "../routes";
import { post, part } from "../api/http";
import { setArchived, titleOf, type Row } from "../state/rows";
import { forgetRow, putBack, rowSignal } from "../state/sessions";
import { forkSession } from "../steering/fork-dialog";
import { copyText } from "../ui/copy";
import { Menu, type MenuEntry } from "../ui/menu";
import { toast, toastError } from "../ui/toasts";
import { archived } from "./filters";

export function RowMenu(props: { row: Row; tabIndex: number }) {
  return (
    <Menu
      label={`Actions for ${titleOf(props.row)}`}
      face={<span aria-hidden="true">⋯</span>}
      class="row-menu"
      align="right"
      tabIndex={props.tabIndex}
      items={() => itemsOf(props.row)}
    />
  );
}

function itemsOf(row: Row): MenuEntry[] {
  const id = row.session_id;
  const isResumable = row.resumable !== false;
  return [
    { name: isResumable && !row.live ? "Open and resume" : "Open", act: () => go({ view: "session", id }) },
    { name: "Fork", note: "A new session that begins with this conversation", act: () => forkSession(id), disabled: !isResumable },
    { name: "Copy link", act: () => void copyLink(id) },
    null,
    { name: "Interrupt", act: () => act(id, "interrupt"), disabled: row.state !== "active" && row.state !== "awaiting_input" },
    { name: "Stop its CLI", note: "A message starts it again", act: () => act(id, "stop"), disabled: !row.live || row.foreign },
    null,
    row.archived
      ? { name: "Take out of the archive", act: () => archive(row, false) }
      : { name: "Archive", press: "E", act: () => archive(row, true) },
  ];
}

function act(id: string, verb: "interrupt" | "stop"): void {
  post(`/api/sessions/${part(id)}/${verb}`).catch(toastError);
}

async function copyLink(id: string): Promise<void> {
  const url = new URL(link({ view: "session", id }), location.href);
  if (await copyText(url.href)) toast("The link was copied.");
  else toast(`The browser does not let this page copy. The link: ${url.href}`, true);
}

/** Put a session into the archive, or take it out. */
export function archive(row: Row, isArchived: boolean): void {
  setArchived(row.session_id, isArchived)
    .then((now) => {
      const others = archived.peek().filter((each) => each.session_id !== row.session_id);
      archived.value = isArchived ? [...others, now] : others;
      if (isArchived) forgetRow(row.session_id);
      else putBack(now);
      toast(isArchived ? `Archived: ${titleOf(row)}` : `Taken out of the archive: ${titleOf(row)}`);
    })
    .catch(toastError);
}

/** The same by its id: a session that was opened by a link may not be listed here. */
export function archiveById(id: string): void {
  const row = rowSignal(id).peek();
  if (row) archive(row, true);
  else setArchived(id, true).then(() => toast("Archived"), toastError);
}
