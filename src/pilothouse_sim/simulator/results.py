"""The line that ends a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator.clock import now_ms

if TYPE_CHECKING:
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally, TurnEnding
    from pilothouse_sim.simulator.tasks import SessionTasks
    from pilothouse_sim.simulator.transcript import TranscriptFile

__all__ = ["Results"]

_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Results:
    """Writes results and remembers how the last one ended."""

    def __init__(
        self, state: SessionState, tasks: SessionTasks, transcript: TranscriptFile
    ) -> None:
        self._state = state
        self._tasks = tasks
        self._transcript = transcript
        self.count = 0
        self.last_was_error = False

    def write(self, tally: Tally, ending: TurnEnding) -> None:
        """Write the result of a turn."""
        fields = self._common(tally, ending) | self._outcome(tally, ending)
        if ending.reason == "tool_deferred":
            # The turn is not over: nothing is said about how it went.
            fields.pop("api_error_status")
            self._send(fields | {"duration_ms": tally.elapsed_ms()}, is_error=False)
            return
        self._send(fields | self._timing(tally, ending), is_error=ending.is_error)

    def write_local(self, tally: Tally, command: str | None, text: str = "") -> None:
        """Write the result of a command that the CLI carries out by itself."""
        named = {"local_command": command.replace("-", "_")} if command else {}
        self._write_unasked(tally, {"result": text, **named})

    def write_refused(self, tally: Tally, words: str) -> None:
        """Write the result of a prompt that a hook did not let through."""
        self._write_unasked(tally, {"result": words})

    def _write_unasked(self, tally: Tally, outcome: dict[str, Any]) -> None:
        fields = self._books(tally) | {
            "is_error": False,
            "duration_api_ms": 0,
            "num_turns": 0,
            "stop_reason": None,
            "subtype": "success",
            **outcome,
            **tally.names(),
        }
        self._send(fields | {"duration_ms": tally.elapsed_ms()}, is_error=False)

    def _books(self, tally: Tally) -> dict[str, Any]:
        ledger = self._state.ledger
        return {
            "total_cost_usd": ledger.cost or 0,
            "usage": tally.spent.as_usage(),
            "modelUsage": ledger.by_model(),
            "permission_denials": tally.denials,
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
            "subagent_stats": self._tasks.statistics(),
            "safety_stops": ledger.safety_stops,
            "queued_turn_count": 0,
            "model_usage_since_last_result": ledger.since_last_result(),
        }

    def _common(self, tally: Tally, ending: TurnEnding) -> dict[str, Any]:
        fields = self._books(tally) | {
            "duration_api_ms": self._state.ledger.api_ms,
            "stop_reason": tally.stop_reason,
            "terminal_reason": ending.reason,
            "is_error": ending.is_error,
            "num_turns": 1 + tally.user_lines,
            "subtype": ending.subtype,
            **tally.names(),
        }
        if tally.origin is not None:
            fields["origin"] = tally.origin
        return fields

    def _outcome(self, tally: Tally, ending: TurnEnding) -> dict[str, Any]:
        if ending.errors is not None:
            return {"errors": ending.errors}
        fields: dict[str, Any] = {"api_error_status": None, "result": tally.last_text}
        if tally.structured is not None:
            fields["structured_output"] = tally.structured
        return fields | ending.extra

    def _timing(self, tally: Tally, ending: TurnEnding) -> dict[str, Any]:
        elapsed = tally.elapsed_ms()
        if tally.first_usage is None or ending.is_error:
            return {"duration_ms": elapsed}
        timing = {
            "ttft_ms": elapsed,
            "duration_ms": elapsed,
            "ttft_stream_ms": elapsed,
            "time_to_request_ms": elapsed,
            "first_content_frame_ms": elapsed,
        }
        if not tally.uuids:
            return timing
        return timing | {
            "request_sent_wall_ms": now_ms() - elapsed,
            "first_request_input_tokens": sum(tally.first_usage[name] for name in _READ),
            "first_request_cache_read_input_tokens": tally.first_usage["cache_read_input_tokens"],
        }

    def _send(self, fields: dict[str, Any], *, is_error: bool) -> None:
        self._transcript.mirror()
        self._state.outlet.send("result", **fields, result_index=self.count)
        self.count += 1
        self.last_was_error = is_error
