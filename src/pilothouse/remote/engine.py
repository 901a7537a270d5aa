"""An engine that is in another process, reached over HTTP."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from pilothouse.api import requests as wire
from pilothouse.api.answers import Answer
from pilothouse.api.events import Batch
from pilothouse.api.questions import Answered, Asked, Question, QuestionFilter
from pilothouse.api.requests import Ask, Fork, Say, Start
from pilothouse.api.results import (
    AllStopped,
    Cancelled,
    CostReport,
    DryRun,
    Health,
    Interrupted,
    ModeSet,
    PolicyReport,
    Rewound,
    Runner,
    RunnerAdded,
    Said,
    Started,
    Stopped,
)
from pilothouse.api.statuses import Listing, Status
from pilothouse.api.values import JsonObject
from pilothouse.errors import Refused, UnknownQuestion, UnknownRunner, UnknownSession
from pilothouse.protocol.permissions import PermissionMode

from .calling import Caller
from .watching import watch

if TYPE_CHECKING:
    import ssl

__all__ = ["RemoteEngine"]

Objects = list[JsonObject]
Runners = list[Runner]
RUNNERS = "/api/runners"


class RemoteEngine:
    """An `Engine` at an address such as `http://127.0.0.1:8137`."""

    def __init__(
        self,
        address: str,
        token: str,
        *,
        tls: ssl.SSLContext | None = None,
        patience: float = 60.0,
    ) -> None:
        """`tls`: whom to trust at an https address. `patience`: how long a watcher waits for a
        server that is gone to come back."""
        self._caller = Caller(address, token, tls)
        self._patience = patience

    async def start(self, request: Start) -> Started:
        return await self._caller.ask(Started, "POST", "/api/sessions", body=request)

    async def say(self, session_id: str, request: Say) -> Said:
        return await self._do(Said, "POST", session_id, "messages", body=request)

    async def cancel(self, session_id: str, prompt_id: str) -> Cancelled:
        return await self._do(Cancelled, "DELETE", session_id, "messages", prompt_id)

    async def answer(self, question_id: str, answer: Answer, *, by: str = "person") -> Answered:
        path = f"{_question(question_id)}/answer"
        return await self._caller.ask(Answered, "POST", path, body=answer, query={"by": by})

    async def ask(self, request: Ask) -> Asked:
        return await self._caller.ask(Asked, "POST", "/api/asks", body=request)

    async def withdraw(self, question_id: str, because: str) -> Question:
        path = f"{_question(question_id)}/withdraw"
        body = wire.Withdraw(because=because)
        return await self._caller.ask(Question, "POST", path, body=body)

    async def interrupt(self, session_id: str) -> Interrupted:
        return await self._do(Interrupted, "POST", session_id, "interrupt")

    async def stop(self, session_id: str) -> Stopped:
        return await self._do(Stopped, "POST", session_id, "stop")

    async def stop_all(self) -> AllStopped:
        return await self._caller.ask(AllStopped, "POST", "/api/sessions/stop")

    async def fork(self, session_id: str, request: Fork) -> Started:
        return await self._do(Started, "POST", session_id, "fork", body=request)

    async def rewind(self, session_id: str, prompt_id: str, *, preview: bool = False) -> Rewound:
        body = wire.Rewind(prompt_id=prompt_id, preview=preview)
        return await self._do(Rewound, "POST", session_id, "rewind", body=body)

    async def compact(self, session_id: str, instructions: str | None = None) -> Said:
        body = wire.Compact(instructions=instructions)
        return await self._do(Said, "POST", session_id, "compact", body=body)

    async def set_mode(self, session_id: str, mode: PermissionMode) -> ModeSet:
        return await self._do(ModeSet, "PUT", session_id, "mode", body=wire.SetMode(mode=mode))

    async def set_model(self, session_id: str, model: str | None) -> Status:
        return await self._do(Status, "PUT", session_id, "model", body=wire.SetModel(model=model))

    async def set_thinking(self, session_id: str, tokens: int | None) -> Status:
        body = wire.SetThinking(tokens=tokens)
        return await self._do(Status, "PUT", session_id, "thinking", body=body)

    async def mcp_status(self, session_id: str) -> Objects:
        return await self._do(Objects, "GET", session_id, "mcp")

    async def mcp_reconnect(self, session_id: str, server: str) -> Objects:
        return await self._do(Objects, "POST", session_id, "mcp", server, "reconnect")

    async def mcp_toggle(self, session_id: str, server: str, *, enabled: bool) -> Objects:
        body = wire.Enable(enabled=enabled)
        return await self._do(Objects, "PUT", session_id, "mcp", server, body=body)

    async def mcp_set(self, session_id: str, servers: dict[str, JsonObject]) -> JsonObject:
        body = wire.Servers(servers=servers)
        return await self._do(JsonObject, "PUT", session_id, "mcp", body=body)

    async def context_usage(self, session_id: str) -> JsonObject:
        return await self._do(JsonObject, "GET", session_id, "context")

    async def commands(self, session_id: str) -> Objects:
        return await self._do(Objects, "GET", session_id, "commands")

    async def models(self, session_id: str) -> Objects:
        return await self._do(Objects, "GET", session_id, "models")

    async def control(self, session_id: str, subtype: str, fields: JsonObject) -> JsonObject:
        body = wire.Control(subtype=subtype, fields=fields)
        return await self._do(JsonObject, "POST", session_id, "control", body=body)

    async def status(
        self, session_id: str, *, output_lines: int = 0, after: int | None = None
    ) -> Status:
        query = {"output_lines": output_lines, "after": after}
        return await self._do(Status, "GET", session_id, query=query)

    async def list(
        self, *, cwd: str | None = None, limit: int = 50, offset: int = 0, live: bool = False
    ) -> Listing:
        query = {"cwd": cwd, "limit": limit, "offset": offset, "live": live}
        return await self._caller.ask(Listing, "GET", "/api/sessions", query=query)

    async def questions(
        self,
        *,
        session_id: str | None = None,
        state: QuestionFilter = "decidable",
        limit: int = 500,
        before: str | None = None,
    ) -> Sequence[Question]:
        query = {"session_id": session_id, "state": state, "limit": limit, "before": before}
        kind = builtins.list[Question]
        return await self._caller.ask(kind, "GET", "/api/questions", query=query)

    async def question(self, question_id: str) -> Question:
        return await self._caller.ask(Question, "GET", _question(question_id))

    async def read(
        self, after: int = 0, *, session_id: str | None = None, limit: int = 500
    ) -> Batch:
        query = {"after": after, "session_id": session_id, "limit": limit}
        return await self._caller.ask(Batch, "GET", "/api/events", query=query)

    def watch(
        self, after: int | None = None, *, session_id: str | None = None
    ) -> AsyncGenerator[Batch]:
        """As it happens; comes back by itself, at the same place, when the server was away."""
        return watch(self._caller, after, session_id, self._patience)

    async def policy(self) -> PolicyReport:
        return await self._caller.ask(PolicyReport, "GET", "/api/policy")

    async def policy_dry_run(self, text: str) -> DryRun:
        body = wire.DryRunText(text=text)
        return await self._caller.ask(DryRun, "POST", "/api/policy/dry-run", body=body)

    async def cost(
        self,
        by: Literal["turn", "session", "project", "day"] = "session",
        *,
        session_id: str | None = None,
        since: int | None = None,
        limit: int = 1000,
        before: str | None = None,
    ) -> CostReport:
        query = {
            "by": by,
            "session_id": session_id,
            "since": since,
            "limit": limit,
            "before": before,
        }
        return await self._caller.ask(CostReport, "GET", "/api/cost", query=query)

    async def runners(self) -> Runners:
        return await self._caller.ask(Runners, "GET", RUNNERS)

    async def add_runner(self, name: str) -> RunnerAdded:
        body = wire.AddRunner(name=name)
        return await self._caller.ask(RunnerAdded, "POST", RUNNERS, body=body)

    async def drain_runner(self, name: str, *, draining: bool = True) -> Runner:
        body = wire.Drain(draining=draining)
        return await self._caller.ask(Runner, "POST", f"{_runner(name)}/drain", body=body)

    async def revoke_runner(self, name: str) -> Runner:
        return await self._caller.ask(Runner, "DELETE", _runner(name))

    async def settings(self) -> JsonObject:
        return await self._caller.ask(JsonObject, "GET", "/api/settings")

    async def health(self) -> Health:
        """An engine that is not in order says so here; that is no error."""
        return await self._caller.ask(Health, "GET", "/healthz", also=503)

    async def aclose(self) -> None:
        """Leave the server. It goes on, and so do its sessions."""
        await self._caller.aclose()

    async def _do(
        self,
        kind: Any,
        method: str,
        session_id: str,
        *names: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        session = f"/api/sessions/{_name(session_id, UnknownSession)}"
        path = "/".join([session, *(quote(each, safe="") for each in names)])
        return await self._caller.ask(kind, method, path, body=body, query=query)


def _question(question_id: str) -> str:
    return f"/api/questions/{_name(question_id, UnknownQuestion)}"


def _runner(name: str) -> str:
    return f"{RUNNERS}/{_name(name, UnknownRunner)}"


def _name(name: str, unknown: type[Refused]) -> str:
    """As it stands in a path. One that shortens the path would ask for something else."""
    if name in ("", ".", ".."):
        raise unknown(f"nothing has the name {name!r}", advice="list those there are")
    return quote(name, safe="")
