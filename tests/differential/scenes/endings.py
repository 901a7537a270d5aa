"""How turns end: limits, errors of the API, broken streams, structured output."""

from __future__ import annotations

from typing import Any

from pilothouse_sim.scenario import (
    AnyReply,
    ApiError,
    Branch,
    Broken,
    Raw,
    Scenario,
    When,
    gate,
    reply,
)
from tests.differential.driver import Cli, Scene
from tests.differential.host import PARTIAL, REPLAY, bash, has_text, script, turns

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
END_OF_BLOCK = {"type": "content_block_stop", "index": 0}
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


async def cut_at_gate(cli: Cli) -> None:
    """Lets the model's connection break once a whole block has come through."""
    cli.prompt("Hello.")
    await cli.until(lambda line: line["type"] == "assistant")
    cli.release("cut")
    await cli.settle()


async def interrupted_in_wait(cli: Cli) -> None:
    """Interrupts while the CLI waits before it calls the model again."""
    cli.prompt("Hello.")
    await cli.until(lambda line: line.get("subtype") == "api_retry")
    await cli.control("interrupt")
    await cli.settle()
    await turns("And now?")(cli)


def overlong(status: int, message: str = "no") -> Scenario:
    """A model that finds one request too long, twice."""
    branch = Branch(
        when=When(last_contains="Fail, please."),
        replies=(ApiError(status=status, message=message),) * 2,
    )
    return script(reply("One."), reply("Two."), reply("Three."), branches=[branch])


FAILING = turns("Fail, please.", "And now?")
FAILING_ONCE = turns("Fail, please.")
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"

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
    "api_error_422": Scene(failing(422), FAILING_ONCE, covers="E1"),
    "api_error_408": Scene(failing(408), FAILING_ONCE, env=ONE_RETRY, covers="E2"),
    "api_error_402": Scene(failing(402), FAILING_ONCE, covers="E1"),
    "api_error_without_retry": Scene(
        failing(529, headers={"x-should-retry": "false"}), FAILING_ONCE, covers="E2"
    ),
    "api_error_retry_after": Scene(
        failing(429, headers={"retry-after": "1"}), FAILING_ONCE, env=ONE_RETRY, covers="E2"
    ),
    "api_error_credit": Scene(
        failing(400, message="Your credit balance is too low to access the API."),
        FAILING_ONCE,
        covers="E1",
    ),
    "api_error_echoed": Scene(failing(403), FAILING_ONCE, (REPLAY, PARTIAL), covers="E1"),
    "api_error_413_later": Scene(
        overlong(413), turns("Hi.", "Ho.", "Fail, please.", "Then?"), covers="E1"
    ),
    "prompt_too_long": Scene(
        failing(400, message=TOO_LONG, times=1), turns("Fail, please."), covers="E1"
    ),
    "prompt_too_long_later": Scene(
        overlong(400, TOO_LONG), turns("Hi.", "Fail, please.", "Then?"), covers="E1"
    ),
    "max_budget_with_tools": Scene(
        script(reply("Look.", bash("ls")), reply("More.", bash("ls")), reply("Never.")),
        turns("Spend."),
        ("--max-budget-usd=0.0008",),
        covers="E4",
    ),
    "api_retry": Scene(
        script(ApiError(status=529), reply("At last.")), turns("Hello."), covers="E2"
    ),
    "api_retry_interrupted": Scene(
        script(ApiError(status=429, headers={"retry-after": "50"}), reply("At last.")),
        interrupted_in_wait,
        (REPLAY, PARTIAL),
        covers="E2 D1",
    ),
    "stream_cut": Scene(
        script(Broken(reply=reply("Not", gate("cut"), " this."), after=3), reply("This.")),
        stream_cut,
        (PARTIAL,),
        covers="A23",
    ),
    "stream_cut_after_block": Scene(
        script(
            Broken(reply=reply("First.", Raw(END_OF_BLOCK), gate("cut")), after=4),
            reply("This."),
        ),
        cut_at_gate,
        (PARTIAL,),
        covers="A23",
    ),
    "stream_damaged_after_block": Scene(
        script(Broken(reply=reply("First.", bash("ls")), after=6, how="malformed"), reply("This.")),
        turns("Hello."),
        (PARTIAL,),
        covers="E6",
    ),
    "stream_damaged_then_tool": Scene(
        script(
            Broken(reply=reply("Not this."), after=2, how="malformed"),
            reply("This.", bash("ls")),
            reply("Done."),
        ),
        turns("Hello."),
        (PARTIAL,),
        covers="E6",
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
    "stopped_by_max_tokens_often": Scene(
        script(*(reply(f"Part {part}.", stop_reason="max_tokens") for part in range(5))),
        turns("Go on.", "And now?"),
        covers="E6",
    ),
    "stopped_by_full_window": Scene(
        script(*stopped("model_context_window_exceeded")), turns("Go on."), covers="E6"
    ),
    "stopped_by_pause": Scene(script(*stopped("pause_turn")), turns("Go on."), covers="E6"),
    "stopped_by_refusal_twice": Scene(
        script(reply("a", stop_reason="refusal"), reply("b", stop_reason="refusal")),
        turns("Go on."),
        (PARTIAL,),
        covers="E6",
    ),
    "stopped_by_sequence": Scene(script(*stopped("stop_sequence")), turns("Go on.")),
    "empty_reply": Scene(script(reply("")), turns("Say nothing.")),
    "empty_reply_twice": Scene(
        script(reply(""), reply(""), reply("Words.")), turns("Say nothing.", "Still."), (REPLAY,)
    ),
    "empty_reply_streamed": Scene(
        script(reply(), reply("Words.")), turns("Say nothing."), (REPLAY, PARTIAL)
    ),
}
