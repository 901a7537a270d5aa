"""What a runner and a server say to each other: one text message is one JSON object.

    hello            runner -> server   who it is and which runs it has; the first message
    welcome          server -> runner   under which name it is known
    start_run        server -> runner   answered by `started_run` with the same id
    find_transcript  server -> runner   answered by `found_transcript` with the same id
    end_run          server -> runner   end that run's CLI in order
    drain            server -> runner   take no new runs, or take them again; answered by `draining`
    run_gone         runner -> server   that run's relay is there no more
    draining         runner -> server   whether it takes no new runs of its own accord

Members and messages that one side does not know are those of a newer one, and are passed over.
"""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar

import msgspec

__all__ = [
    "Drain",
    "Draining",
    "EndRun",
    "FindTranscript",
    "FoundTranscript",
    "FromRunner",
    "FromServer",
    "Hello",
    "MessageError",
    "RunGone",
    "RunTold",
    "StartRun",
    "StartedRun",
    "Welcome",
    "encode",
    "from_runner",
    "from_server",
]


Said = TypeVar("Said")


class MessageError(ValueError):
    """The peer sent what is no message."""


class RunTold(msgspec.Struct, frozen=True):
    """One run that a runner looks after."""

    session_id: str
    run: str
    relay_pid: int
    cli_pid: int | None = None


class Hello(msgspec.Struct, frozen=True, tag_field="type", tag="hello"):
    host: str
    program: str
    """The version of Pilothouse there."""
    name: str = ""
    """The name it expects to have; empty if it leaves that to its token."""
    cli: str | None = None
    cli_version: str | None = None
    runs: tuple[RunTold, ...] = ()
    draining: bool = False


class StartedRun(msgspec.Struct, frozen=True, tag_field="type", tag="started_run"):
    id: int
    ok: bool
    reason: str = ""


class FoundTranscript(msgspec.Struct, frozen=True, tag_field="type", tag="found_transcript"):
    id: int
    found: bool


class RunGone(msgspec.Struct, frozen=True, tag_field="type", tag="run_gone"):
    run: str
    reason: str = ""


class Draining(msgspec.Struct, frozen=True, tag_field="type", tag="draining"):
    on: bool


class Welcome(msgspec.Struct, frozen=True, tag_field="type", tag="welcome"):
    name: str
    program: str = ""
    """The version of Pilothouse there; servers of before do not tell."""


class StartRun(msgspec.Struct, frozen=True, tag_field="type", tag="start_run"):
    """A CLI to be started behind a relay; the first word of `argv` is the runner's to choose."""

    id: int
    session_id: str
    run: str
    token: str
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None
    last_will: float
    files: dict[str, str] = {}
    """What `argv` must not show: by the path that `argv` has for it, which is the server's."""


class FindTranscript(msgspec.Struct, frozen=True, tag_field="type", tag="find_transcript"):
    id: int
    session_id: str


class EndRun(msgspec.Struct, frozen=True, tag_field="type", tag="end_run"):
    run: str


class Drain(msgspec.Struct, frozen=True, tag_field="type", tag="drain"):
    on: bool


FromRunner: TypeAlias = Hello | StartedRun | FoundTranscript | RunGone | Draining
FromServer: TypeAlias = Welcome | StartRun | FindTranscript | EndRun | Drain

_RUNNERS_KINDS: Final = frozenset(
    {"hello", "started_run", "found_transcript", "run_gone", "draining"}
)
_SERVERS_KINDS: Final = frozenset({"welcome", "start_run", "find_transcript", "end_run", "drain"})


class _Envelope(msgspec.Struct, frozen=True):
    type: str


_encoder: Final = msgspec.json.Encoder()
_envelope: Final = msgspec.json.Decoder(_Envelope)
_runners: Final = msgspec.json.Decoder[FromRunner](FromRunner)
_servers: Final = msgspec.json.Decoder[FromServer](FromServer)


def encode(message: FromRunner | FromServer) -> str:
    return _encoder.encode(message).decode()


def from_runner(text: str | bytes) -> FromRunner | None:
    """Read what a runner said; None if it is of a kind not known here."""
    return _decoded(_runners, text) if _kind(text) in _RUNNERS_KINDS else None


def from_server(text: str | bytes) -> FromServer | None:
    """Read what a server said; None if it is of a kind not known here."""
    return _decoded(_servers, text) if _kind(text) in _SERVERS_KINDS else None


def _kind(text: str | bytes) -> str:
    return _decoded(_envelope, text).type


def _decoded(decoder: msgspec.json.Decoder[Said], text: str | bytes) -> Said:
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MessageError(f"no message: {error}") from error
