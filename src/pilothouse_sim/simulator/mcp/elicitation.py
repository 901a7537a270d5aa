"""A server asks the user something: the hooks hear of it, the client answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator.outlet import ClientGone, ClientRefused

if TYPE_CHECKING:
    from pilothouse_sim.simulator.activity import SessionActivity
    from pilothouse_sim.simulator.hooks.session import SessionHooks
    from pilothouse_sim.simulator.outlet import Outlet

__all__ = ["McpElicitation"]

_RENAMED = {
    "requestedSchema": "requested_schema",
    "url": "url",
    "elicitationId": "elicitation_id",
}


class McpElicitation:
    """Brings the questions of servers to the hooks and the client."""

    def __init__(self, outlet: Outlet, hooks: SessionHooks, activity: SessionActivity) -> None:
        self._outlet = outlet
        self._hooks = hooks
        self._activity = activity

    async def elicit(self, server: str, params: dict[str, Any]) -> dict[str, Any]:
        """The user's answer to a server's question, as the server is told."""
        mode = params.get("mode") or "form"
        asked = {"mcp_server_name": server, "message": params.get("message", ""), "mode": mode}
        asked |= {new: params[old] for old, new in _RENAMED.items() if old in params}
        fired = await self._hooks.fire("Elicitation", asked, query=server)
        answer = fired.ordered("action") or await self._ask(asked)
        await self._tell(server, mode, asked, answer)
        return answer

    async def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        order = list(asked.get("requested_schema", {}).get("properties", {}))
        extra = {"property_order": order} if "requested_schema" in asked else {}
        self._activity.require_action()
        try:
            answer: dict[str, Any] = await self._outlet.ask("elicitation", **asked, **extra) or {}
        except (ClientGone, ClientRefused):
            return {"action": "cancel"}
        finally:
            self._activity.end_action()
        if answer.get("action") not in ("accept", "decline", "cancel"):
            return {"action": "cancel"}
        return {key: answer[key] for key in ("action", "content") if key in answer}

    async def _tell(
        self, server: str, mode: str, asked: dict[str, Any], answer: dict[str, Any]
    ) -> None:
        named = {key: asked[key] for key in ("elicitation_id",) if key in asked}
        told = {"mcp_server_name": server, "mode": mode, **named, **answer}
        await self._hooks.fire("ElicitationResult", told, query=server)
        words = f'Elicitation response for server "{server}": {answer["action"]}'
        kind = "elicitation_response"
        notice = {"message": words, "notification_type": kind}
        await self._hooks.fire("Notification", notice, query=kind)
