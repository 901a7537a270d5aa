"""How turns end: limits, errors of the API, broken streams, structured output."""

from __future__ import annotations

from typing import Any

from pilothouse.testing.scenario import (
    AnyReply,
    ApiError,
    Branch,
    Broken,
    Scenario,
    When,
    gate,
    reply,
)
from tests.differential.driver import Cli, Scene
from tests.differential.host import PARTIAL, bash, has_text, script, turns

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
ONE_RETRY = {"CLAUDE_CODE_MAX_RETRIES": "1"}


def failing(status: int, times: int = 12, **more: Any) -> Scenario:
    """A model that refuses one prompt and answers the next."""
    branch = Branch(
        when=When(last_contains="Fail, please."),
        replies=(ApiError(status=status, **more),) * times,
    )
    return script(reply("Better."), branches=[branch])


async def stream_cut(cli: Cli) -> None:
    """Lets the model's connection break once some of its text has come through."""
    cli.prompt("Hello.")
    await cli.until(has_text)
    cli.release("cut")
    await cli.settle()


def stopped(reason: str) -> list[AnyReply]:
    """A reply that the model did not end by itself, and one for whoever asks again."""
    return [reply("As far as", stop_reason=reason), reply("it goes.")]


FAILING = turns("Fail, please.", "And now?")

SCENES = {
    "max_turns": Scene(
        script(reply(bash("ls")), reply(bash("ls")), reply("Done.")),
        turns("Look around.", "And again."),
        ("--max-turns=1",),
        covers="E4 D9",
    ),
    "max_budget": Scene(
        script(reply("Dear."), reply("Dearer.")),
        turns("Spend.", "And again."),
        ("--max-budget-usd=0.0001",),
        covers="E4",
    ),
    "api_error_400": Scene(
        failing(400, message="messages: no"), turns("Fail, please."), covers="E1 E2 D9"
    ),
    "api_error_then_better": Scene(failing(403), FAILING, covers="E1"),
    "api_error_401": Scene(failing(401), FAILING, env=ONE_RETRY, covers="E2"),
    "api_error_404": Scene(failing(404), FAILING, covers="E1"),
    "api_error_413": Scene(failing(413), FAILING, covers="E1"),
    "api_error_429": Scene(failing(429), FAILING, env=ONE_RETRY, covers="E2"),
    "api_error_500": Scene(failing(500), FAILING, env=ONE_RETRY, covers="E2"),
    "api_error_529": Scene(failing(529), FAILING, env=ONE_RETRY, covers="E2"),
    "api_retry": Scene(
        script(ApiError(status=529), reply("At last.")), turns("Hello."), covers="E2"
    ),
    "stream_cut": Scene(
        script(Broken(reply=reply("Not", gate("cut"), " this."), after=3), reply("This.")),
        stream_cut,
        (PARTIAL,),
        covers="A23",
    ),
    "stream_damaged": Scene(
        script(Broken(reply=reply("Not this."), after=2, how="malformed"), reply("This.")),
        turns("Hello."),
        (PARTIAL,),
        covers="E6",
    ),
    "stopped_by_max_tokens": Scene(
        script(*stopped("max_tokens")), turns("Go on."), (PARTIAL,), covers="E6"
    ),
    "stopped_by_refusal": Scene(script(*stopped("refusal")), turns("Go on."), covers="E6"),
    "stopped_by_sequence": Scene(script(*stopped("stop_sequence")), turns("Go on.")),
    "empty_reply": Scene(script(reply("")), turns("Say nothing.")),
}
