"""What the console's page costs: opening a long session, its memory, its frames, its bytes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any

import conversation
import fake_cli
import harness

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, CDPSession, Page

FEW, MANY = 50, 50_000
PER_SECOND = 200
"""Events of the session that the page has open."""
BURST = 2_000
"""Events a second that are more than the slow link can carry one by one."""
LINK = 400_000 // 8
"""Bytes a second of a poor connection of a phone."""
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def main() -> None:
    """Fill two sessions; measure one thing after the other, each against its limit in turn."""
    chosen = harness.settings()
    many = 500 if chosen.quick else MANY
    rounds = chosen.rounds or (1 if chosen.quick else 5)
    seconds = 1 if chosen.quick else 10
    with house() as served, browser(served) as context:
        sessions = {"few": served.start(f"fill {FEW}"), "many": served.start(f"fill {many}")}
        for session in sessions.values():
            served.wait(session)
        first_load = {view: load_bytes(served, context, view) for view in ("", sessions["few"])}
        frames = harness.interleave(
            ["ours", "limit"],
            rounds,
            lambda who: frame_times(served, context, sessions["many"], who, seconds),
        )
        watched = {
            str(rate): watch(served, sessions["many"], rate, seconds)
            for rate in (PER_SECOND, BURST)
        }
        cold, warm = openings(served, context, sessions, rounds)
        memory = {
            who: memory_of(served, context, session, 240 if chosen.quick else 3_000)
            for who, session in sessions.items()
        }
    harness.report(
        {
            "name": "console",
            "unit": f"ms from the navigation to the last of {many} items",
            "ours": harness.middle(warm, "many", "ms"),
            "peer": None,
            "limit": harness.middle(warm, "few", "ms"),
            "vs_peer": None,
            "vs_limit": harness.ratio(warm, "few", "many", "ms"),
            "target": {
                "many_to_few": 1.5,
                "first_load_bytes": 150_000,
                "frame_p99_ms": 33,
                "frame_longest_ms": 100,
            },
            "many_to_few": harness.ratio(warm, "many", "few", "ms"),
            "many_to_few_spread": harness.spread(warm, "many", "few", "ms"),
            "new_server": {
                "few": harness.middle(cold, "few", "ms"),
                "many": harness.middle(cold, "many", "ms"),
                "many_to_few": harness.ratio(cold, "many", "few", "ms"),
            },
            "first_load_bytes": dict(zip(("inbox", "session"), first_load.values(), strict=True)),
            "frames": {
                "events_per_second": PER_SECOND,
                **{
                    key: {
                        "ours": harness.middle(frames, "ours", key),
                        "empty_page": harness.middle(frames, "limit", key),
                    }
                    for key in frames[0]["ours"]
                },
                "p99_to_empty": harness.ratio(frames, "ours", "limit", "p99_ms"),
                "longest_to_empty": harness.ratio(frames, "ours", "limit", "longest_ms"),
            },
            "memory": memory,
            "watchers": watched,
            "load": os.getloadavg()[0],
            "rounds": rounds,
        }
    )


# A server, and what it is asked


class House:
    """A server in a home of its own, whose CLI is this file."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = dict(env)
        self._process: subprocess.Popen[bytes] | None = None
        self._prompts: Counter[str] = Counter()
        self.address = ""

    def open(self) -> None:
        """Start the server, where the last one was."""
        command = [sys.executable, "-P", "-m", "pilothouse", "serve", "--simulate", "never"]
        self._process = subprocess.Popen(
            command,
            env=self._env,
            cwd=self._env["HOME"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.address = line.decode().partition("serving at ")[2].strip()
            if self.address:
                self._env["PILOTHOUSE_PORT"] = self.address.rpartition(":")[2]
                return
        sys.exit("the server never served")

    def close(self) -> None:
        """End the server; CLIs stay."""
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=harness.DEADLINE)

    @property
    def token(self) -> str:
        state = Path(self._env["HOME"]) / ".local/state/pilothouse"
        return (state / "token").read_text().strip()

    def ask(self, method: str, path: str, **body: Any) -> Any:
        """Call the API with the token."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=harness.DEADLINE) as response:
            return json.loads(response.read())

    def start(self, prompt: str) -> str:
        started = self.ask("POST", "/api/sessions", prompt=prompt, cwd=self._env["HOME"])
        self._prompts[started["session_id"]] += 1
        return str(started["session_id"])

    def say(self, session: str, text: str) -> None:
        self._prompts[session] += 1
        self.ask("POST", f"/api/sessions/{session}/messages", content=text)

    def wait(self, session: str) -> None:
        """Until each of its prompts had its turn."""
        status: dict[str, Any] = {}
        deadline = time.monotonic() + harness.DEADLINE
        while time.monotonic() < deadline:
            status = self.ask("GET", f"/api/sessions/{session}/wait?seconds=60&at_rest=true")
            if status["turns"] >= self._prompts[session]:
                return
            if status["state"] == "error":
                break
        sys.exit(f"{session} never had its turn: {status.get('reason')}")


@contextmanager
def house() -> Iterator[House]:
    """A server that runs until the end; nothing of it stays."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        cli = Path(folder) / "claude"
        command = shlex.join([sys.executable, str(Path(__file__)), "cli"])
        cli.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        cli.chmod(0o755)
        # Without a key, which nobody looks at, sessions would run on the simulator.
        home = {"HOME": folder, "PILOTHOUSE_PORT": "0", "ANTHROPIC_API_KEY": "none"}
        served = House(harness.environment() | home | {"CLAUDE_CODE_PATH": str(cli)})
        served.open()
        try:
            yield served
        finally:
            served.ask("POST", "/api/sessions/stop")
            served.close()


@contextmanager
def browser(served: House) -> Iterator[BrowserContext]:
    """Chromium, signed in."""
    from playwright.sync_api import sync_playwright

    named = os.environ.get("PILOTHOUSE_CHROMIUM")
    program = named or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        sys.exit("no Chromium: apt install chromium, or name one in PILOTHOUSE_CHROMIUM")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=FLAGS)
        # The worker that keeps the page for when there is no network is no part of what is asked.
        context = running.new_context(service_workers="block")
        context.set_default_timeout(harness.DEADLINE * 1000)
        page = context.new_page()
        page.goto(served.ask("POST", "/api/console/links")["url"])
        page.get_by_role("banner").wait_for()
        page.close()
        try:
            yield context
        finally:
            running.close()


# Opening


DRAWN = """() => new Promise((done) => {
  const look = () => {
    const last = [...document.querySelectorAll(".items > .item")].at(-1);
    if (last?.dataset.kind === "turn" && last.getBoundingClientRect().top < innerHeight)
      requestAnimationFrame(() => done(performance.now()));
    else requestAnimationFrame(look);
  };
  look();
})"""


def openings(
    served: House, context: BrowserContext, sessions: Mapping[str, str], rounds: int
) -> tuple[list[dict[str, harness.Figures]], list[dict[str, harness.Figures]]]:
    """Both sessions in turn: for the first time since the server started, and again."""
    cold: list[dict[str, harness.Figures]] = []
    warm: list[dict[str, harness.Figures]] = []

    def measure(who: str) -> harness.Figures:
        page = opened(served, context, sessions[who])
        spent = page.evaluate(DRAWN)
        page.close()
        return {"ms": spent}

    for number in range(rounds):
        order = ["few", "many"] if number % 2 else ["many", "few"]
        served.close()
        served.open()
        cold += harness.interleave(order, 1, measure)
        warm += harness.interleave(order, 2, measure)
    return cold, warm


def opened(served: House, context: BrowserContext, session: str) -> Page:
    """A page of its own that is on its way to a session."""
    page = context.new_page()
    page.goto(f"{served.address}/#/session/{session}", wait_until="commit")
    return page


def load_bytes(served: House, context: BrowserContext, session: str) -> int:
    """What the server sends of the page itself before it can be used, compressed."""
    page = context.new_page()
    tools = context.new_cdp_session(page)
    kinds: dict[str, str] = {}
    sizes: list[float] = []

    def received(event: dict[str, Any]) -> None:
        kinds[event["requestId"]] = event["type"]

    def finished(event: dict[str, Any]) -> None:
        if kinds.get(event["requestId"]) in ("Document", "Script", "Stylesheet", "Font"):
            sizes.append(event["encodedDataLength"])

    tools.on("Network.responseReceived", received)
    tools.on("Network.loadingFinished", finished)
    tools.send("Network.enable")
    tools.send("Network.setCacheDisabled", {"cacheDisabled": True})
    page.goto(f"{served.address}/#/" + (f"session/{session}" if session else ""))
    page.wait_for_load_state("networkidle")
    page.close()
    return int(sum(sizes))


# Frames


FRAMES = """(seconds) => new Promise((done) => {
  const deltas = [];
  let last;
  const end = performance.now() + seconds * 1000;
  const step = (now) => {
    if (last !== undefined) deltas.push(now - last);
    last = now;
    if (now < end) requestAnimationFrame(step);
    else done(deltas);
  };
  requestAnimationFrame(step);
})"""


def frame_times(
    served: House, context: BrowserContext, session: str, who: str, seconds: int
) -> harness.Figures:
    """The frames of a page that shows a session at work, or of an empty one beside it."""
    if who == "ours":
        page = opened(served, context, session)
        page.evaluate(DRAWN)
    else:
        page = context.new_page()
        page.goto("about:blank")
    tools = context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    served.say(session, f"stream {PER_SECOND} {seconds + 1}")
    before = metrics(tools)
    deltas = page.evaluate(FRAMES, seconds)
    after = metrics(tools)
    page.close()
    served.wait(session)
    parts = quantiles(deltas, n=100)
    figures = {"p50_ms": parts[49], "p99_ms": parts[98], "longest_ms": max(deltas)}
    # Of its thread alone: what others do on this machine is not in it.
    for key in ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration"):
        name = re.sub(r"(?<!^)([A-Z])", r"_\1", key.removesuffix("Duration")).lower()
        figures[f"{name}_cpu_percent"] = (after[key] - before[key]) / seconds * 100
    return figures


def metrics(tools: CDPSession) -> dict[str, float]:
    """Chromium's own counters of a page."""
    return {each["name"]: each["value"] for each in tools.send("Performance.getMetrics")["metrics"]}


# Memory


SCROLL = """async (wanted) => {
  const scroller = document.querySelector(".scroller");
  const seen = new Set();
  while (seen.size < wanted && !document.body.innerText.includes("The conversation begins here.")) {
    for (const each of document.querySelectorAll(".items > .item")) seen.add(each.dataset.item);
    scroller.scrollTop = 0;
    await new Promise(requestAnimationFrame);
  }
  return seen.size;
}"""


def memory_of(served: House, context: BrowserContext, session: str, items: int) -> dict[str, Any]:
    """What a page holds when it has opened a session, and after scrolling up once and twice."""
    page = opened(served, context, session)
    page.evaluate(DRAWN)
    tools = context.new_cdp_session(page)
    tools.send("Performance.enable")
    held = {"opened": held_by(tools)}
    for name in ("scrolled", "scrolled_twice"):
        seen = page.evaluate(SCROLL, items)
        held[name] = {"items": seen} | held_by(tools)
    page.close()
    return held


def held_by(tools: CDPSession) -> dict[str, float]:
    tools.send("HeapProfiler.collectGarbage")
    counted = metrics(tools)
    return {
        "heap_kib": counted["JSHeapUsedSize"] // 1024,
        "nodes": counted["Nodes"],
        "listeners": counted["JSEventListeners"],
    }


# Watchers


def watch(served: House, session: str, rate: int, seconds: int) -> dict[str, Any]:
    """Two follow a session that streams: one next to the server, one over a slow link."""
    host, _, port = served.address.rpartition("//")[2].rpartition(":")
    links = {"near": Link(host, int(port), None), "phone": Link(host, int(port), LINK)}
    watchers = {name: Watcher(served, session, link) for name, link in links.items()}
    served.say(session, f"stream {rate} {seconds}")
    served.wait(session)
    done = {name: each.join() for name, each in watchers.items()}
    for link in links.values():
        link.close()
    lines = list(islice(stream(), rate * seconds))
    return {
        "events": len(lines),
        "event_bytes": sum(map(len, lines)),
        **done,
        "phone_is_behind_ms": round((watchers["phone"].ended - watchers["near"].ended) * 1000),
    }


class Watcher:
    """Reads what changes until the turn has ended, in a thread of its own."""

    def __init__(self, served: House, session: str, link: Link) -> None:
        from websockets.sync.client import connect

        self.ended = 0.0
        self._link = link
        self._frames = self._patches = self._bytes = 0
        address = served.address.replace("http", "ws", 1)
        self._socket = connect(
            f"{address}/api/sessions/{session}/conversation/ws",
            sock=socket.create_connection(link.address),
            additional_headers={"Authorization": f"Bearer {served.token}"},
            max_size=None,
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        for text in self._socket:
            frame = json.loads(text)
            patches = frame.get("patches", ())
            self._frames += 1
            self._patches += len(patches)
            self._bytes += len(text)
            if any(each.get("item", {}).get("kind") == "turn" for each in patches):
                break
        self.ended = time.perf_counter()

    def join(self) -> dict[str, int]:
        self._thread.join(harness.DEADLINE)
        self._socket.close()
        return {
            "frames": self._frames,
            "patches": self._patches,
            "bytes": self._bytes,
            "bytes_on_link": self._link.carried,
        }


class Link:
    """One connection to the server that carries so many bytes a second, and holds few itself."""

    def __init__(self, host: str, port: int, per_second: int | None) -> None:
        self.carried = 0
        self._pace = 1 / per_second if per_second else 0.0
        self._server = socket.socket()
        if per_second:
            self._server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._server.connect((host, port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._carry, daemon=True).start()

    def _carry(self) -> None:
        client, _ = self._listener.accept()
        threading.Thread(target=self._up, args=(client,), daemon=True).start()
        with suppress(OSError):
            while data := self._server.recv(1024):
                self.carried += len(data)
                client.sendall(data)
                time.sleep(len(data) * self._pace)
        # Closing alone tells nobody while the other thread reads from it.
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        client.close()

    def _up(self, client: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(4096):
                self._server.sendall(data)

    def close(self) -> None:
        self._listener.close()
        self._server.close()


# The CLI


def play(arguments: list[str]) -> None:
    """Do what each prompt says: `fill ITEMS`, or `stream LINES_A_SECOND SECONDS`."""
    if "--version" in arguments:
        sys.stdout.write(f"{fake_cli.VERSION} (Claude Code)\n")
        return
    given = " ".join(arguments).replace("=", " ").split()
    named = next(word for word in ("--session-id", "--resume") if word in given)
    session = given[given.index(named) + 1]

    def write(line: bytes) -> None:
        old = fake_cli.SESSION.encode()
        fake_cli.write(line.rstrip(b"\n").replace(old, session.encode()) + b"\n")

    for line in fake_cli.lines():
        message = json.loads(line)
        if message["type"] == "control_request":
            write(fake_cli.answer_to(message))
        elif message["type"] == "user":
            write(fake_cli.encode(fake_cli.init()))
            write(fake_cli.encode(message | {"isReplay": True, "session_id": session}))
            for part in performed(prompt_of(message)):
                write(part)
            write(fake_cli.encode(fake_cli.result() | {"uuid": message["uuid"]}))


def prompt_of(message: dict[str, Any]) -> list[str]:
    content = message["message"]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return str(text).split()


def performed(words: list[str]) -> Iterator[bytes]:
    """The lines of a turn, at their pace."""
    match words:
        case ["fill", items]:
            # The prompt and the turn are items too.
            yield from filling(int(items) - 2)
        case ["stream", rate, seconds]:
            begun = time.monotonic()
            for number, line in enumerate(islice(stream(), int(rate) * int(seconds))):
                time.sleep(max(begun + number / int(rate) - time.monotonic(), 0))
                yield line
        case _:
            pass


PROSE = (
    "The harbour has **three** piers, and `boats.py` knows two of them. See the list:\n\n"
    "- the north pier, with the crane\n- the old pier\n- a [new one](https://example.com)\n\n"
)
CODE = "    for boat in harbour.boats:\n        moor(boat, pier=nearest(boat))  # before the tide\n"


def filling(items: int) -> Iterator[bytes]:
    """Texts and calls by turns, each an item."""
    for number in range(items):
        uuid = f"fill-{number}"
        if number % 2:
            yield from called(f"{uuid}", "echo ok", "ok\n" * 20)
        else:
            content = [conversation.text(f"{number}. {PROSE}")]
            message = {"id": f"msg_{uuid}", "role": "assistant", "model": "m", "content": content}
            yield conversation.line("assistant", message=message, uuid=f"t{uuid}")


def stream() -> Iterator[bytes]:
    """Messages in pieces, without an end: prose, a long piece of code, and calls."""
    begun = time.time_ns()
    for number in count():
        name = f"{begun}-{number}"
        pieces = [*cut(PROSE * 6), "```python\n", *cut(CODE * 25), "```\n\n", *cut(PROSE)]
        message = {"id": f"msg_{name}", "role": "assistant", "model": "m", "content": []}
        yield conversation.piece("message_start", message=message)[1]
        for text in pieces:
            delta = {"type": "text_delta", "text": text}
            yield conversation.piece("content_block_delta", index=0, delta=delta)[1]
        whole = {**message, "content": [conversation.text("".join(pieces))]}
        yield conversation.line("assistant", message=whole, uuid=f"s{name}")
        for call in range(10):
            yield from called(f"{name}-{call}", f"make test-{call}", "ok\n" * 20)


def cut(text: str) -> list[str]:
    """As a model writes: some letters at a time."""
    return [text[at : at + 12] for at in range(0, len(text), 12)]


def called(name: str, command: str, output: str) -> Iterator[bytes]:
    """A call and its result."""
    use = {"type": "tool_use", "id": f"toolu_{name}", "name": "Bash", "input": {"command": command}}
    message = {"id": f"msg_c{name}", "role": "assistant", "model": "m", "content": [use]}
    yield conversation.line("assistant", message=message, uuid=f"c{name}")
    given = {"type": "tool_result", "tool_use_id": use["id"], "content": output}
    result = {"stdout": output, "stderr": "", "interrupted": False}
    told = {"role": "user", "content": [given]}
    yield conversation.line("user", message=told, uuid=f"r{name}", tool_use_result=result)


if __name__ == "__main__":
    if sys.argv[1:2] == ["cli"]:
        play(sys.argv[2:])
    else:
        main()
