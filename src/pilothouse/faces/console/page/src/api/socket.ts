/** A stream over a WebSocket that comes back by itself, from the cursor it had. */

import { signal } from "@preact/signals";
import { get, signedIn } from "./http";

/** How the connection to the server is; what the page shows in its head. */
export const connection = signal<"connecting" | "open" | "lost">("connecting");

const FIRST_RETRY_MS = 250;
const LONGEST_RETRY_MS = 8000;
/** After so long a silence the server is asked whether it is there, and has as long to answer. */
const SILENCE_MS = 15_000;
const ALIVE = "alive";

export interface Frame {
  type: string;
  cursor?: number;
  id?: unknown;
}

export interface StreamOptions<F extends Frame> {
  /** The path of the socket. */
  path: string;
  /** Where to begin; `undefined`: from now on. */
  after?: number;
  /** Every frame, in order. */
  receive: (frame: F) => void;
  /** The stream is there again after it was lost. */
  resumed?: () => void;
  /** Its state is the page's: the one stream that every view has. */
  isMain?: boolean;
}

export class Stream<F extends Frame> {
  private socket: WebSocket | null = null;
  private cursor: number | undefined;
  private retry = FIRST_RETRY_MS;
  private timer = 0;
  private silence = 0;
  private wasOpen = false;
  private closed = false;

  constructor(private readonly options: StreamOptions<F>) {
    this.cursor = options.after;
    this.open();
    addEventListener("online", this.retryNow);
    document.addEventListener("visibilitychange", this.retryNow);
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    removeEventListener("online", this.retryNow);
    document.removeEventListener("visibilitychange", this.retryNow);
    this.socket?.close();
  }

  private readonly retryNow = (): void => {
    if (this.socket === null && !this.closed && !document.hidden) this.open();
  };

  private open(): void {
    clearTimeout(this.timer);
    const url = new URL(this.options.path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    if (this.cursor !== undefined) url.searchParams.set("after", String(this.cursor));
    const socket = (this.socket = new WebSocket(url));
    this.heard();
    let wasAccepted = false;
    socket.onmessage = (event) => {
      this.heard();
      const frame = JSON.parse(event.data as string) as F;
      if (frame.id === ALIVE) return;
      if (frame.cursor !== undefined) this.cursor = frame.cursor;
      this.options.receive(frame);
    };
    socket.onopen = () => {
      wasAccepted = true;
      this.retry = FIRST_RETRY_MS;
      this.tell("open");
      this.heard();
      if (this.wasOpen) this.options.resumed?.();
      this.wasOpen = true;
    };
    socket.onclose = () => {
      this.lost(socket);
      // A page is not told why a handshake was refused. If nobody is signed in any more, this says so.
      if (!wasAccepted && !this.closed) void get("/console/me").catch(() => undefined);
    };
  }

  /** Nothing tells a page of a network that is gone without a word, so it asks; who does not even open is given up. */
  private heard(): void {
    clearTimeout(this.silence);
    this.silence = window.setTimeout(() => {
      if (this.socket?.readyState !== WebSocket.OPEN) return this.giveUp();
      this.socket.send(JSON.stringify({ id: ALIVE, do: "health" }));
      this.silence = window.setTimeout(() => this.giveUp(), SILENCE_MS);
    }, SILENCE_MS);
  }

  private giveUp(): void {
    const socket = this.socket;
    if (!socket) return;
    socket.close();
    this.lost(socket);
  }

  private lost(socket: WebSocket): void {
    if (this.socket !== socket) return;
    this.socket = null;
    clearTimeout(this.silence);
    if (this.closed) return;
    this.tell("lost");
    if (signedIn.peek() === false) return;
    // Many pages come back at once after a restart: not all in the same moment.
    this.timer = window.setTimeout(() => this.open(), this.retry * (0.5 + Math.random()));
    this.retry = Math.min(this.retry * 2, LONGEST_RETRY_MS);
  }

  private tell(state: "open" | "lost"): void {
    if (this.options.isMain) connection.value = state;
  }
}
