"""The conversation on disk: `<config>/projects/<folder>/<session>.jsonl`, a line for a step.

Kept as 2.1.325 keeps it: `user`, `assistant` and `system` lines, each with the `parentUuid` of the
one before it, so that a conversation is a chain that ends in its newest line; `attachment` lines
for prompts that joined a running turn; `queue-operation` for prompts that come and go;
`last-prompt`, `custom-title` and `agent-name` for lists of sessions; `file-history-*` for
checkpoints; `cost-state` for what a resumed session has spent already. A sub-agent's conversation
lies beside it in `<session>/subagents/agent-<id>.jsonl`.

Left out, because nobody but the CLI reads them: `api-request*`, `atis-latch`, `tools-used`, `mode`
and the attachments that repeat the system prompt.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import Struct

from pilothouse.folders import make_private
from pilothouse.protocol.wire import encode_json
from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.outlet import new_id

if TYPE_CHECKING:
    from pilothouse_sim.simulator.prompts import ClientPrompt
    from pilothouse_sim.simulator.state import SessionState

MIRROR_DELAY: Final = 0.1
"""Seconds after which a client with a copy has what was written."""

__all__ = ["MAIN", "Chain", "Line", "Thread", "TranscriptFile"]

Line = dict[str, Any]

_ASSISTANT_FIELDS: Final = {
    "aborted": "isAbortedMidStream",
    "is_api_error_message": "isApiErrorMessage",
    "error": "error",
    "api_error_status": "apiErrorStatus",
    "thinking_duration_ms": "thinkingDurationMs",
    "thinking_display": "thinkingDisplay",
}
"""Members of an assistant line on the wire that its line on disk has under another name."""
_USER_FIELDS: Final = {"tool_use_result": "toolUseResult", "isMeta": "isMeta"}


class Thread(Struct, frozen=True):
    """Whose conversation it is: the session's own, or a sub-agent's, which `labels` tell apart."""

    labels: Line
    is_main: bool = False

    @property
    def agent(self) -> str:
        """The sub-agent's id; empty for the session's own conversation."""
        return "" if self.is_main else str(self.labels.get("agent_id", "unknown"))


MAIN: Final = Thread({"parent_tool_use_id": None}, is_main=True)
"""The session's own conversation."""


class Chain:
    """Where one conversation stands: its newest line, and what waits to be written after it."""

    def __init__(self, leaf: str | None = None) -> None:
        self.leaf = leaf
        self.held: list[Line] = []
        """Lines of a reply that goes on: they are written when it is known how it ends."""
        self.calls: dict[str, str] = {}
        """The lines in which tools were called."""
        self.replied: list[str] = []
        """The lines of the newest reply."""
        self.since: list[str] = []
        """The lines that follow it."""


class TranscriptFile:
    """Writes what is said, line by line."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._chains: dict[str, Chain] = {"": Chain()}
        self._branch = _branch_of(state.cwd)
        self.folder = facts.project_folder(state.config_dir, state.original_cwd)
        self.inherited: list[Line] = []
        """Lines of another session that this one goes on from; the first write takes them over."""
        self.title: str | None = None
        self.last_prompt = ""
        self.turns = 0
        self._has_written = False
        self._unmirrored: dict[Path, list[Line]] = {}
        self._mirroring: asyncio.TimerHandle | None = None

    # Where things stand

    @property
    def path(self) -> Path:
        """The file of the session."""
        return self.folder / f"{self._state.session_id}.jsonl"

    @property
    def main(self) -> Chain:
        """The session's own conversation."""
        return self._chains[""]

    def begin_anew(self) -> None:
        """Start the transcript of a new conversation."""
        self.close()
        self._chains = {"": Chain()}
        self.inherited = []
        self.title = None
        self.last_prompt = ""
        self.turns = 0
        self._has_written = False

    # Prompts

    def enqueued(self, words: str) -> None:
        """Note that a prompt waits."""
        self._queue("enqueue", content=words)

    def dequeued(self) -> None:
        """Note that a prompt's turn has come."""
        self._queue("dequeue")

    def _queue(self, operation: str, **fields: Any) -> None:
        line = {"type": "queue-operation", "operation": operation, "timestamp": timestamp()}
        self.write(line | {"sessionId": self._state.session_id} | fields)

    def prompt(
        self,
        thread: Thread,
        prompt: ClientPrompt,
        *,
        merged: list[str] | None = None,
        origin: dict[str, Any] | None = None,
    ) -> str:
        """Keep a prompt that opens a turn, and return its uuid."""
        own = prompt.own_id
        message = {"role": "user", "content": prompt.content}
        if not thread.is_main:
            self._describe(thread)
            self._link(thread, "user", message=message, uuid=own, promptId=self._state.prompt_id)
            return own
        self.turns += 1
        source = "system" if origin else "sdk"
        origin = origin or prompt.origin
        fields: Line = {
            "permissionMode": self._state.permissions.mode,
            "promptSource": source,
            "turnOrigin": "human" if prompt.is_human else source,
            "turnPosition": {"promptIndex": 0, "turnIndex": self.turns},
            **({"mergedSendUuids": merged} if merged else {}),
            **({"turnAttributionKey": own} if prompt.uuid else {}),
            **({"origin": origin} if origin else {}),
        }
        if source == "sdk":
            self.last_prompt = prompt.text
        self._said(message, own, fields)
        if prompt.expansion is not None:
            more = [{"type": "text", "text": prompt.expansion}]
            self._said({"role": "user", "content": more}, new_id(), {"isMeta": True})
        return own

    def _describe(self, thread: Thread) -> None:
        """Say beside a sub-agent's transcript what it is for."""
        if self._state.launch.no_session_persistence:
            return
        about = {
            "agentType": thread.labels.get("subagent_type"),
            "description": thread.labels.get("task_description"),
            "toolUseId": thread.labels.get("parent_tool_use_id"),
            "spawnDepth": 1,
        }
        path = self._agent_path(thread.agent)
        make_private(path.parent)
        path.with_suffix(".meta.json").write_bytes(msgspec.json.encode(about))
        self._note_written(path, [{"type": "agent_metadata", **about}])

    def joined(self, prompt: ClientPrompt) -> None:
        """Keep a prompt that joined a running turn."""
        delivery = new_id()
        self._queue(
            "remove",
            content=prompt.text,
            reason="absorbed_mid_turn",
            commandUuid=prompt.uuid,
            deliveryId=delivery,
        )
        attachment = {
            "type": "queued_command",
            "prompt": prompt.content,
            "source_uuid": prompt.uuid,
            "delivery_id": delivery,
            "commandMode": "prompt",
            "timestamp": timestamp(),
        }
        self.main_line("attachment", attachment=attachment)

    # What is said

    def assistant(self, thread: Thread, message: Line, uuid: str, extra: Line) -> None:
        """Keep a line of the model's."""
        chain = self._chain(thread)
        kept = {key: value for key, value in message.items() if key != "context_management"}
        line = {"message": kept, "uuid": uuid, **_renamed(extra, _ASSISTANT_FIELDS)}
        if not chain.held or chain.held[-1]["message"]["id"] != kept["id"]:
            self._release(thread)
            chain.replied, chain.since = [], []
        chain.held.append(line)
        chain.replied.append(uuid)
        chain.calls |= {
            block["id"]: uuid for block in kept["content"] if block["type"] == "tool_use"
        }

    def complete(self, thread: Thread, stop_reason: str | None, usage: Line) -> None:
        """Write the lines of a reply that has ended."""
        for line in self._chain(thread).held:
            line["message"] |= {
                "stop_reason": stop_reason,
                "usage": _full_usage(usage),
                "stop_details": None,
            }
        self._release(thread)

    def user(self, thread: Thread, message: Line, uuid: str, extra: Line) -> None:
        """Keep a line of the user's side."""
        fields: Line = {"uuid": uuid, "promptId": self._state.prompt_id}
        fields |= _renamed(extra, _USER_FIELDS)
        source = self._source(thread, message["content"])
        if source is not None:
            fields |= {"sourceToolAssistantUUID": source, "parentUuid": source}
        self._link(thread, "user", message=message, **fields)

    def main_line(self, type_: str, /, **fields: Any) -> str:
        """Add any line to the session's own conversation, and return its uuid."""
        return self._link(MAIN, type_, **fields)

    def _said(self, message: Line, uuid: str, fields: Line) -> None:
        self.main_line("user", promptId=self._state.prompt_id, message=message, uuid=uuid, **fields)

    def _source(self, thread: Thread, content: Any) -> str | None:
        if not isinstance(content, list) or not content:
            return None
        first = cast("Line", content[0])
        return self._chain(thread).calls.get(first.get("tool_use_id", ""))

    # Between turns

    def turn_ended(self) -> None:
        """Write what lists of sessions show."""
        self._release(MAIN)
        self._last_prompt()

    def rename(self, title: str) -> None:
        """Give the session a title."""
        self.title = title
        self._write_title()

    def close(self) -> None:
        """Write what the next process needs to go on from here."""
        self._release(MAIN)
        if not self._has_written:
            return
        self._last_prompt()
        if self.title is not None:
            self._write_title()
        state = {"type": "cost-state", "sessionId": self._state.session_id}
        self.write(state | self._state.ledger.state())
        self.mirror()

    def _last_prompt(self) -> None:
        if self.last_prompt and self.main.leaf:
            self._note("last-prompt", lastPrompt=self.last_prompt, leafUuid=self.main.leaf)

    def _write_title(self) -> None:
        self._note("custom-title", customTitle=self.title)
        self._note("agent-name", agentName=self.title)

    def _note(self, type_: str, **fields: Any) -> None:
        self.write({"type": type_, **fields, "sessionId": self._state.session_id})

    # Lines

    def _chain(self, thread: Thread) -> Chain:
        return self._chains.setdefault(thread.agent, Chain())

    def _release(self, thread: Thread) -> None:
        chain = self._chain(thread)
        held, chain.held = chain.held, []
        for index, line in enumerate(held):
            self._link(thread, "assistant", **line, apiBlockIndex=index)

    def _link(self, thread: Thread, type_: str, /, **fields: Any) -> str:
        chain = self._chain(thread)
        if chain.held:
            self._release(thread)
        agent = thread.agent
        line: Line = {
            "parentUuid": chain.leaf,
            "isSidechain": bool(agent),
            **({"agentId": agent} if agent else {}),
            "type": type_,
            "uuid": new_id(),
            "timestamp": timestamp(),
            **fields,
            "userType": "external",
            "entrypoint": self._state.environment.get("CLAUDE_CODE_ENTRYPOINT", "sdk-cli"),
            "cwd": str(self._state.cwd),
            "sessionId": self._state.session_id,
            "version": facts.VERSION,
            "gitBranch": self._branch,
        }
        chain.leaf = line["uuid"]
        if type_ != "assistant":
            chain.since.append(line["uuid"])
        self.write(line, self._agent_path(agent) if agent else None)
        return line["uuid"]

    def _agent_path(self, agent: str) -> Path:
        return self.path.with_suffix("") / "subagents" / f"agent-{agent}.jsonl"

    def write(self, line: Line, path: Path | None = None) -> None:
        """Append a line as it is."""
        if self._state.launch.no_session_persistence:
            return
        lines, self.inherited = [*self.inherited, line], []
        target = path or self.path
        make_private(target.parent)
        target.touch(0o600)
        with target.open("ab") as file:
            file.write(b"".join(encode_json(each) + b"\n" for each in lines))
        self._has_written = True
        self._note_written(target, lines)

    def _note_written(self, path: Path, lines: list[Line]) -> None:
        """Keep what a client with a copy is to get: soon, and before the result of a turn."""
        if not self._state.launch.session_mirror:
            return
        self._unmirrored.setdefault(path, []).extend(lines)
        if self._mirroring is None:
            self._mirroring = asyncio.get_running_loop().call_later(MIRROR_DELAY, self.mirror)

    def mirror(self) -> None:
        """Send the client what was written since the last time."""
        if self._mirroring is not None:
            self._mirroring.cancel()
            self._mirroring = None
        written, self._unmirrored = self._unmirrored, {}
        for path, lines in written.items():
            self._state.outlet.mirror(str(path), lines)


def _renamed(extra: Line, names: dict[str, str]) -> Line:
    return {names[key]: value for key, value in extra.items() if key in names}


def _full_usage(usage: Line) -> Line:
    from pilothouse_sim.simulator.ledger import Spent

    spent = Spent()
    spent.add(usage)
    return spent.as_usage()


def _branch_of(cwd: Path) -> str:
    """The branch of the repository a folder is in; `HEAD` when it is in none, as the CLI says."""
    for folder in (cwd, *cwd.parents):
        head = folder / ".git" / "HEAD"
        if head.is_file():
            return head.read_text().strip().rpartition("refs/heads/")[2]
    return "HEAD"
