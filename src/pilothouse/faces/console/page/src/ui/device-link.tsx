/** A one-time link for another device, as text and as a code that a phone's camera reads. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { post } from "../api/http";
import { Failure, LoadState, PanelDialog } from "../steering/panel-dialog";
import { CopyButton } from "./copy";
import { useLoaded } from "./load";
import { isLoopback } from "./loopback";
import { clockTime, now } from "./time";

interface DeviceLink {
  url: string;
  expires_at: number;
}

const isOpen = signal(false);

export function openDeviceLink(): void {
  isOpen.value = true;
}

export function DeviceLinkDialog() {
  return isOpen.value ? <Link onClose={() => (isOpen.value = false)} /> : null;
}

function Link(props: { onClose: () => void }) {
  const loaded = useLoaded(() => post<DeviceLink>("/api/console/links"), []);
  const found = loaded.value;
  const isOver = found !== null && found.expires_at < now.value;
  return (
    <PanelDialog title="Sign in another device" onClose={props.onClose} class="device-link">
      <LoadState of={loaded} words="Making a link…" />
      {found && !isOver && (
        <>
          {isLoopback(location.host) && (
            <p class="question-wrong">
              This page is at {location.host}, which only this machine reaches. Open the page at an address that the
              device reaches, and make the link there.
            </p>
          )}
          <p>Open this on the device. It works once, until {clockTime(found.expires_at)}.</p>
          <Code text={found.url} />
          <div class="row">
            <code class="grow device-url">{found.url}</code>
            <CopyButton text={found.url} class="button" />
          </div>
        </>
      )}
      {isOver && <p class="quiet">This link is too old by now.</p>}
      <div class="row dialog-ways">
        <button type="button" class="button" disabled={loaded.isLoading} onClick={loaded.again}>
          Make another link
        </button>
      </div>
    </PanelDialog>
  );
}

/** The encoder is loaded when somebody wants a code. */
function Code(props: { text: string }) {
  const [rows, setRows] = useState<readonly (readonly boolean[])[] | null>(null);
  const [failed, setFailed] = useState<Error | null>(null);
  useEffect(() => {
    setRows(null);
    import("./qr").then((qr) => setRows(qr.encode(props.text)), setFailed);
  }, [props.text]);
  if (!rows) return <Failure error={failed} />;
  const size = rows.length + 8;
  const dark = rows.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? `M${x + 4} ${y + 4}h1v1h-1z` : [])));
  return (
    <svg class="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label="The link as a code for a camera">
      <rect width={size} height={size} class="qr-light" />
      <path d={dark.join("")} class="qr-dark" />
    </svg>
  );
}
