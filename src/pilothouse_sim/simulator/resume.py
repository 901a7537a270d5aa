"""Goes on from a transcript: finds it, reads the conversation in it, and puts a session there.

A transcript is a tree; the conversation is the chain from its newest line up to its root, or up to
the boundary where it was compacted. Everything the chain needs is in the file, whoever wrote it:
this simulator or a real CLI.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.flags import BadFlag
from pilothouse_sim.simulator.outlet import new_id

if TYPE_CHECKING:
    from pilothouse_sim.simulator.flags import LaunchFlags
    from pilothouse_sim.simulator.outlet import Outlet
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["NothingToResume", "PastSession", "find", "own_id", "read", "refuse", "restore"]

Line = dict[str, Any]

_USAGE: Final = (
    "Error: --resume requires a valid session ID or session title when used with --print. "
    "Usage: claude -p --resume <session-id|title>"
)
_LINKED: Final = frozenset({"user", "assistant", "attachment", "system"})
"""Kinds of lines that the chain is made of."""
_SCRIPTED: Final = re.compile(r"_scripted_(\d+)$")


class NothingToResume(Exception):
    """There is no such conversation; the text is what the CLI's result and stderr say."""

    def __init__(self, text: str, session_id: str | None = None) -> None:
        super().__init__(text)
        self.session_id = session_id or new_id()


class PastSession(Struct, frozen=True, kw_only=True):
    """What a transcript holds."""

    session_id: str
    folder: Path
    lines: list[Line]
    """All of them."""
    chain: list[Line]
    """Those of the conversation, oldest first."""

    @property
    def leaf(self) -> str | None:
        """The line that the next one follows."""
        return self.chain[-1]["uuid"] if self.chain else None

    @property
    def replies(self) -> list[Line]:
        """The model's lines, also those of branches that were left."""
        return [
            line["message"]
            for line in self.lines
            if line["type"] == "assistant"
            and not line.get("isSidechain")
            and line["message"].get("model") != "<synthetic>"
        ]

    @property
    def model(self) -> str | None:
        """The model that spoke last in the conversation."""
        spoke = [line["message"]["model"] for line in self.chain if line["type"] == "assistant"]
        return next((name for name in reversed(spoke) if name != "<synthetic>"), None)

    def last(self, kind: str) -> Line | None:
        """The newest line of a kind."""
        return next((line for line in reversed(self.lines) if line["type"] == kind), None)


# Finding


def find(launch: LaunchFlags, environment: Mapping[str, str]) -> PastSession | None:
    """The conversation that the command line asks to go on with, if it asks for one.

    Raises `BadFlag` for flags that do not go together, and `NothingToResume`.
    """
    projects = _config_dir(environment) / "projects"
    folder = facts.project_folder(projects.parent, Path.cwd())
    _check(launch, folder)
    if launch.resume is not None:
        whole = read(_resumed_path(launch.resume, projects, folder))
        past = _cut_at(whole, launch.resume_session_at)
        _check_dropped(whole, past, launch)
    elif launch.continue_:
        newest = max(_transcripts(folder), key=lambda path: path.stat().st_mtime_ns, default=None)
        past = read(newest) if newest else None
    else:
        past = None
    return past


def own_id(launch: LaunchFlags, past: PastSession | None) -> str:
    """The id of the session that begins."""
    if past is not None and not launch.fork_session:
        return past.session_id
    return launch.session_id or new_id()


def _config_dir(environment: Mapping[str, str]) -> Path:
    home = Path(environment.get("HOME", "/"))
    return Path(environment.get("CLAUDE_CONFIG_DIR", home / ".claude"))


def _check(launch: LaunchFlags, folder: Path) -> None:
    resumes = launch.resume is not None or launch.continue_
    if launch.resume_session_at is not None and launch.resume is None:
        raise BadFlag("Error: --resume-session-at requires --resume")
    if launch.resume_drops_turn is not None and launch.resume_session_at is None:
        raise BadFlag("Error: --resume-drops-turn requires --resume-session-at")
    own = launch.session_id
    if own is None:
        return
    if resumes and not launch.fork_session:
        raise BadFlag(
            "Error: --session-id can only be used with --continue or --resume if --fork-session "
            "is also specified."
        )
    if not _is_uuid(own):
        raise BadFlag("Error: Invalid session ID. Must be a valid UUID.")
    if own != launch.resume and (folder / f"{own}.jsonl").exists():
        raise BadFlag(f"Error: Session ID {own} is already in use.")


def _resumed_path(wanted: str, projects: Path, folder: Path) -> Path:
    if not wanted:
        raise NothingToResume(_USAGE)
    if wanted.endswith(".jsonl"):
        path = Path(wanted)
        if path.exists():
            return path
        # The CLI names a session here that never was.
        raise NothingToResume(f"No conversation found with session ID: {new_id()}")
    if not _is_uuid(wanted):
        return _titled(wanted, folder)
    here = folder / f"{wanted}.jsonl"
    found = [here] if here.exists() else list(projects.glob(f"*/{wanted}.jsonl"))
    if not found:
        raise NothingToResume(f"No conversation found with session ID: {wanted}", wanted)
    return found[0]


def _titled(title: str, folder: Path) -> Path:
    for path in _transcripts(folder):
        named = read(path).last("custom-title")
        if named and named["customTitle"].lower() == title.lower():
            return path
    raise NothingToResume(
        f'{_USAGE}. Provided value "{title}" is not a UUID and does not match any session title.'
    )


def _transcripts(folder: Path) -> Iterable[Path]:
    return (path for path in folder.glob("*.jsonl") if _is_uuid(path.stem))


def _is_uuid(words: str) -> bool:
    try:
        return str(uuid.UUID(words)) == words.lower()
    except ValueError:
        return False


# Reading


def read(path: Path) -> PastSession:
    """Read a transcript; lines that are no JSON objects are passed over."""
    lines = [line for raw in path.read_bytes().splitlines() if (line := _decoded(raw))]
    linked = [line for line in lines if _is_linked(line)]
    newest = linked[-1]["uuid"] if linked else None
    return PastSession(
        session_id=path.stem, folder=path.parent, lines=lines, chain=_chain(linked, newest)
    )


def _cut_at(past: PastSession, at: str | None) -> PastSession:
    if at is None:
        return past
    found = [index for index, line in enumerate(past.chain) if line["uuid"] == at]
    if not found:
        raise NothingToResume(f"No message found with message.uuid of: {at}", past.session_id)
    return msgspec.structs.replace(past, chain=past.chain[: found[0] + 1])


def _check_dropped(whole: PastSession, kept: PastSession, launch: LaunchFlags) -> None:
    """Refuse to drop anything but the turn that the client has named."""
    turn = launch.resume_drops_turn
    complaint = _complaint(whole.chain[len(kept.chain) :], turn) if turn is not None else None
    if complaint is not None:
        raise NothingToResume(
            f"Resume rejected by --resume-drops-turn: resuming at {kept.leaf} would discard "
            f"entries not attributable to turn {turn}: {complaint}",
            own_id(launch, whole),
        )


def _complaint(dropped: list[Line], turn: str) -> str | None:
    """What is wrong with a turn that is to be dropped."""
    if not _is_uuid(turn):
        return f"declared turn id is not a UUID: {turn}"
    if dropped and dropped[0]["uuid"] != turn:
        first = f"first discarded entry {_entry(0, dropped[0])}"
        return f"range does not start with the declared turn prompt; {first}"
    for number, line in enumerate(dropped[1:], start=1):
        if "promptSource" in line:
            other = f"entry {_entry(number, line)}"
            return f"range contains a user entry not attributable to the declared turn; {other}"
    return None


def _entry(number: int, line: Line) -> str:
    return f"{number} [type={line['type']}, uuid={line['uuid']}]"


def _decoded(raw: bytes) -> Line | None:
    try:
        line = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    return line if "type" in line else None


def _is_linked(line: Line) -> bool:
    return line["type"] in _LINKED and "uuid" in line and not line.get("isSidechain")


def _chain(linked: list[Line], leaf: str | None) -> list[Line]:
    by_id = {line["uuid"]: line for line in linked}
    own: dict[str, Line] = {}
    at = leaf
    while at is not None and at in by_id and at not in own:
        own[at] = by_id[at]
        at = by_id[at].get("parentUuid")
    chain = list(reversed(own.values()))
    return _with_preserved(_with_siblings(chain, linked), by_id)


def _with_siblings(chain: list[Line], linked: list[Line]) -> list[Line]:
    """Add what tools called side by side leave outside the chain: other calls, other results."""
    own = {line["uuid"] for line in chain}
    spoken = {line["message"].get("id") for line in chain if line["type"] == "assistant"}
    own |= {
        line["uuid"]
        for line in linked
        if line["type"] == "assistant" and line["message"].get("id") in spoken
    }
    own |= {line["uuid"] for line in linked if line.get("sourceToolAssistantUUID") in own}
    return [line for line in linked if line["uuid"] in own] if len(own) > len(chain) else chain


def _with_preserved(chain: list[Line], by_id: dict[str, Line]) -> list[Line]:
    """Put the messages that a compaction kept behind its summary."""
    if not chain or chain[0].get("subtype") != "compact_boundary":
        return chain
    kept: Line = chain[0].get("compactMetadata", {}).get("preservedMessages") or {"uuids": []}
    own = {line["uuid"] for line in chain}
    lines = [by_id[each] for each in kept["uuids"] if each in by_id and each not in own]
    return [*chain[:2], *lines, *chain[2:]]


def messages(chain: list[Line]) -> list[Line]:
    """The conversation as the model is told it."""
    told: list[Line] = []
    spoken = ""
    for line in chain:
        message = _message(line)
        if message is None:
            continue
        same = bool(spoken) and message.get("id") == spoken
        spoken = message.get("id", "")
        if same:
            told[-1]["content"] = [*told[-1]["content"], *message["content"]]
        else:
            told.append({"role": message["role"], "content": message["content"]})
    return told


def _message(line: Line) -> Line | None:
    if line["type"] in ("user", "assistant"):
        return line["message"]
    attachment = line.get("attachment", {})
    if attachment.get("type") == "queued_command":
        return {"role": "user", "content": attachment["prompt"]}
    return None


# Going on


def restore(session: SimulatedSession, past: PastSession) -> None:
    """Put a session where the conversation stands."""
    launch, transcript = session.state.launch, session.transcript
    session.main.messages = messages(past.chain)
    if launch.model is None and past.model is not None:
        session.state.model_name = past.model
    transcript.main.leaf = past.leaf
    transcript.turns = sum(1 for line in past.chain if "turnPosition" in line)
    if launch.fork_session:
        transcript.inherited = _inherited(past, session.state.session_id)
    else:
        transcript.folder = past.folder
    prompted = past.last("last-prompt")
    transcript.last_prompt = prompted["lastPrompt"] if prompted else ""
    _restore_title(session, past)
    session.state.ledger.restore(past.last("cost-state") or {})
    session.queue.remember(line["uuid"] for line in past.lines if line["type"] == "user")
    session.checkpoints.restore(past.lines, past.session_id)
    replies = past.replies
    session.model.go_on(len({each["id"] for each in replies}), _highest_numbers(replies))


def _restore_title(session: SimulatedSession, past: PastSession) -> None:
    named = past.last("custom-title")
    if named and session.transcript.title is None:
        session.transcript.title = named["customTitle"]


def _inherited(past: PastSession, session_id: str) -> list[Line]:
    return [
        {key: value for key, value in line.items() if key != "turnAttributionKey"}
        | {"sessionId": session_id}
        for line in past.chain
    ]


def _highest_numbers(replies: list[Line]) -> tuple[int, int]:
    calls = [block["id"] for each in replies for block in each["content"] if "input" in block]
    return _highest([each["id"] for each in replies]), _highest(calls)


def _highest(ids: list[str]) -> int:
    numbers = [int(found[1]) for each in ids if (found := _SCRIPTED.search(each))]
    return max(numbers, default=len(ids))


def refuse(outlet: Outlet, refusal: NothingToResume) -> None:
    """Write the result of a session that could not begin."""
    from pilothouse_sim.simulator.ledger import Spent

    outlet.send(
        "result",
        subtype="error_during_execution",
        duration_ms=0,
        duration_api_ms=0,
        is_error=True,
        num_turns=0,
        stop_reason=None,
        total_cost_usd=0,
        usage=Spent().as_usage(),
        modelUsage={},
        permission_denials=[],
        errors=[str(refusal)],
        result_index=0,
    )
