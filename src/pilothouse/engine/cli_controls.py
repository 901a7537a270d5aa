"""The verbs that ask a live CLI something. They start one where none is alive."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pilothouse.api.codec import encode_strictly
from pilothouse.api.redaction import without_secrets
from pilothouse.api.requests import Say, SessionOptions
from pilothouse.api.results import Rewound, Said
from pilothouse.api.statuses import Status
from pilothouse.api.values import JsonObject
from pilothouse.client.client import Client
from pilothouse.errors import ControlError, ControlRefused, NotNow, UsageError
from pilothouse.protocol.control_requests import McpMessage, UntypedRequest
from pilothouse.protocol.strict import clean
from pilothouse.protocol.wire import members

from .adoption import Adoption
from .services import Services
from .session_verbs import SessionVerbs
from .values import check_values

__all__ = ["ALLOWED_CONTROLS", "CLIControls"]

TOLD_ELSEWHERE: Final = frozenset({"commands", "models", "pid"})
ALLOWED_CONTROLS: Final = frozenset(
    {
        "background_tasks",
        "export_conversation",
        "file_suggestions",
        "generate_session_title",
        "get_binary_version",
        "get_context_usage",
        "get_hooks_listing",
        "get_plan",
        "get_session_cost",
        "get_status",
        "get_task_output",
        "get_usage",
        "get_workspace_diff",
        "list_models",
        "list_permission_rules",
        "mcp_status",
        "reload_output_styles",
        "reload_plugins",
        "reload_skills",
        "rename_session",
        "side_question",
        "stop_task",
    }
)
"""Control requests any caller may send. What has a verb of its own is not among them: a mode or a
model that was switched behind the engine would be forgotten at the next start."""


class CLIControls:
    """Asks CLIs on behalf of callers."""

    def __init__(self, services: Services, adoption: Adoption, verbs: SessionVerbs) -> None:
        self._services = services
        self._adoption = adoption
        self._verbs = verbs

    async def set_model(self, session_id: str, model: str | None) -> Status:
        """Switch the model, now and for every later start; None is the CLI's own choice."""
        check_values(SessionOptions(model=model))
        session = await self._adoption.adopted(session_id)
        client = await session.cli.connected()
        if client is not None:
            await client.set_model(model)
        await session.change_options(model=model)
        await self._services.recorder.kept()
        return session.status()

    async def set_thinking(self, session_id: str, tokens: int | None) -> Status:
        """Limit the thinking, now and for every later start; None lifts the limit."""
        check_values(SessionOptions(max_thinking_tokens=tokens))
        session = await self._adoption.adopted(session_id)
        client = await session.cli.connected()
        if client is not None:
            await client.set_max_thinking_tokens(tokens)
        await session.change_options(max_thinking_tokens=tokens)
        await self._services.recorder.kept()
        return session.status()

    async def rewind(self, session_id: str, prompt_id: str, *, preview: bool = False) -> Rewound:
        """Put files back to where they were at a message; a preview reports what would change."""
        client = await (await self._adoption.adopted(session_id)).cli.live()
        try:
            would = await client.rewind_files(prompt_id, dry_run=True)
            if preview or not would.can_rewind:
                return _rewound(would, reason=would.error)
            done = await client.rewind_files(prompt_id)
        except ControlError as error:
            return Rewound(possible=False, reason=error.message)
        return _rewound(would, done=done.can_rewind, reason=done.error)

    async def compact(self, session_id: str, instructions: str | None = None) -> Said:
        """Let the conversation be summed up, which makes room in the context."""
        session = await self._adoption.adopted(session_id)
        if not session.view.has_conversation:
            raise NotNow(f"session {session_id} has nothing to compact", advice="say something")
        return await self._verbs.say(
            session_id, Say(content=f"/compact {instructions or ''}".strip())
        )

    # MCP servers

    async def mcp_status(self, session_id: str) -> list[JsonObject]:
        """The session's MCP servers and whether they are connected."""
        return await _servers(await (await self._adoption.adopted(session_id)).cli.live())

    async def mcp_reconnect(self, session_id: str, server: str) -> list[JsonObject]:
        """Connect to a server again; all of them after it."""
        client = await (await self._adoption.adopted(session_id)).cli.live()
        await client.mcp_reconnect(server)
        return await _servers(client)

    async def mcp_toggle(self, session_id: str, server: str, *, enabled: bool) -> list[JsonObject]:
        """Turn a server off or on; all of them after it."""
        client = await (await self._adoption.adopted(session_id)).cli.live()
        await client.mcp_toggle(server, enabled=enabled)
        return await _servers(client)

    async def mcp_message(self, session_id: str, server: str, *, message: JsonObject) -> JsonObject:
        """Send the CLI a message in the name of a server; what it answers."""
        client = await (await self._adoption.adopted(session_id)).cli.live()
        answered = await client.request(McpMessage(server_name=server, message=message))
        return clean(members(answered.raw))

    async def mcp_set(self, session_id: str, servers: dict[str, JsonObject]) -> JsonObject:
        """Replace the servers, now and for every later start; which came, went and failed."""
        check_values(SessionOptions(mcp_servers=servers))
        session = await self._adoption.adopted(session_id)
        client = await session.cli.live()
        result = await client.mcp_set_servers(servers)
        await session.change_options(mcp_servers=servers)
        return {"added": result.added, "removed": result.removed, "errors": result.errors}

    # What a CLI knows

    async def greeting(self, session_id: str) -> JsonObject:
        """What the CLI told of itself when it began, without its commands and models."""
        client = await (await self._adoption.adopted(session_id)).cli.live()
        told = {} if client.initialization is None else members(client.initialization.raw)
        return clean({name: each for name, each in told.items() if name not in TOLD_ELSEWHERE})

    async def context_usage(self, session_id: str) -> JsonObject:
        """What fills the context window."""
        client = await (await self._adoption.adopted(session_id)).cli.live()
        return members((await client.context_usage()).raw)

    async def commands(self, session_id: str) -> list[JsonObject]:
        """The slash commands there are."""
        client = await (await self._adoption.adopted(session_id)).cli.live()
        return _plain([] if client.initialization is None else client.initialization.commands)

    async def models(self, session_id: str) -> list[JsonObject]:
        """The models there are."""
        client = await (await self._adoption.adopted(session_id)).cli.live()
        return _plain([] if client.initialization is None else client.initialization.models)

    async def control(self, session_id: str, subtype: str, fields: JsonObject) -> JsonObject:
        """Any other control request that is on the list of allowed ones."""
        if subtype not in ALLOWED_CONTROLS.union(self._services.settings.controls):
            raise ControlRefused(
                f"the control request {subtype!r} is not allowed here",
                advice="use the verb that does it, or let the operator add it to `controls`",
            )
        if "subtype" in fields:
            raise UsageError("`fields` cannot name another subtype; leave it out")
        self._services.gate.check("control", fields)
        client = await (await self._adoption.adopted(session_id)).cli.live()
        # Not as arguments: a field may have the name of one.
        told = await client.request(UntypedRequest(kind=subtype, fields=fields))
        reply = clean(members(told.raw))
        return without_secrets(reply) if subtype == "mcp_status" else reply


async def _servers(client: Client) -> list[JsonObject]:
    """Return the MCP servers with their configuration, without secrets."""
    return without_secrets(_plain((await client.mcp_status()).servers))


def _rewound(result: Any, *, done: bool = False, reason: str | None = None) -> Rewound:
    return Rewound(
        possible=result.can_rewind,
        files=result.files_changed,
        insertions=result.insertions,
        deletions=result.deletions,
        done=done,
        reason=reason,
    )


def _plain(records: Any) -> list[JsonObject]:
    return msgspec.json.decode(encode_strictly(records), type=list[JsonObject])
