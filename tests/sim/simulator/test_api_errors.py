"""What becomes of calls that the API refuses, and of replies that end too soon."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import AnyReply, ApiError, Broken, reply, tool
from pilothouse_sim.simulator import refusals
from tests.support.sim.client import SimClient, sim_client

BASE_URL = "http://gateway.example:8080"


def read(status: int, message: str = "no") -> refusals.ApiRefusal:
    error = ApiError(status=status, message=message)
    return refusals.read(error, model="claude-opus-5-5", base_url=BASE_URL)


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "API Error: 400 no", "unknown"),
        (401, "Failed to authenticate. API Error: 401 no", "authentication_failed"),
        (403, "Failed to authenticate. API Error: 403 no", "authentication_failed"),
        (418, "API Error: 418 no", "unknown"),
        (429, "API Error: Request rejected (429) · no", "rate_limit"),
    ],
)
def test_an_error_is_worded_by_its_status(status: int, words: str, kind: str) -> None:
    refusal = read(status)
    assert (refusal.words, refusal.error, refusal.reason) == (words, kind, "api_error")


@pytest.mark.parametrize("status", [500, 503, 529])
def test_a_server_error_names_the_gateway_that_the_calls_go_through(status: int) -> None:
    refusal = read(status)
    assert refusal.error == "server_error"
    assert refusal.words.endswith("check your inference gateway (gateway.example:8080).")


def test_without_a_gateway_none_is_named() -> None:
    refusal = refusals.read(ApiError(status=500), model="m", base_url="")
    assert refusal.words.endswith("try again in a moment.")


def test_what_is_too_large_has_an_ending_of_its_own() -> None:
    assert read(413).reason == "image_error"
    assert read(400, "prompt is too long: 9 tokens > 8 maximum").reason == "prompt_too_long"


def test_a_model_that_there_is_not_is_named() -> None:
    assert "(claude-opus-5-5)" in read(404).words


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "authentication_failed"),
        (408, "server_error"),
        (418, "unknown"),
        (429, "rate_limit"),
        (500, "server_error"),
        (529, "overloaded"),
    ],
)
def test_a_retry_says_what_kind_of_error_it_waits_for(status: int, kind: str) -> None:
    assert refusals.class_of(status) == kind


def test_a_server_that_wants_no_retry_gets_none() -> None:
    assert refusals.is_passing(ApiError(status=529))
    assert not refusals.is_passing(ApiError(status=529, headers={"x-should-retry": "false"}))
    assert not refusals.is_passing(ApiError(status=400))


# In a session


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilothouse_sim.simulator.api_errors.BASE_DELAY", 0.001)


async def ask(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *replies: AnyReply,
    flags: tuple[str, ...] = (),
) -> tuple[dict[str, Any], SimClient]:
    async with sim_client(tmp_path, monkeypatch, *replies, flags=flags) as client:
        return await client.ask("Hello."), client


@pytest.mark.parametrize(("search", "calls"), [("false", 3), ("true", 6)])
async def test_a_refusal_for_the_form_of_a_request_costs_several_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: str, calls: int
) -> None:
    monkeypatch.setenv("ENABLE_TOOL_SEARCH", search)
    errors = [ApiError(status=400)] * calls
    result, client = await ask(tmp_path, monkeypatch, *errors, reply("Never."))
    assert result["result"] == "API Error: 400 The scenario says no."
    assert result["terminal_reason"] == "api_error"
    assert "system/api_retry" not in client.kinds()


async def test_one_call_less_and_the_request_goes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENABLE_TOOL_SEARCH", "false")
    result, _ = await ask(tmp_path, monkeypatch, *[ApiError(status=400)] * 2, reply("Hi."))
    assert result["result"] == "Hi."


async def test_retries_are_counted_and_limited_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "2")
    result, client = await ask(tmp_path, monkeypatch, *[ApiError(status=529)] * 3, reply("Never."))
    retries = [line for line in client.lines if line.get("subtype") == "api_retry"]
    assert [(each["attempt"], each["max_retries"]) for each in retries] == [(1, 2), (2, 2)]
    assert (result["is_error"], result["api_error_status"]) == (True, 529)
    assert "ttft_ms" not in result


async def test_nothing_spent_is_written_as_a_whole_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, _ = await ask(tmp_path, monkeypatch, ApiError(status=403))
    assert result["total_cost_usd"] == 0
    assert isinstance(result["total_cost_usd"], int)


async def test_the_server_says_when_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ApiError(status=429, headers={"retry-after": "0"})
    result, client = await ask(tmp_path, monkeypatch, error, reply("Hi."))
    assert result["result"] == "Hi."
    (retry,) = [line for line in client.lines if line.get("subtype") == "api_retry"]
    assert retry["retry_delay_ms"] == 0


async def test_a_connection_that_never_holds_ends_in_a_reply_in_one_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "1")
    cut = Broken(reply=reply("Half."), after=2)
    result, client = await ask(
        tmp_path,
        monkeypatch,
        cut,
        cut,
        reply("Whole."),
        flags=("--include-partial-messages",),
    )
    assert result["result"] == "Whole."
    assert client.kinds().count("system/api_retry") == 1
    (line,) = [line for line in client.lines if line["type"] == "assistant"]
    assert line["message"]["stop_reason"] == "end_turn"


async def test_a_reply_in_one_piece_can_be_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = Broken(reply=reply("Half."), after=2, how="malformed")
    result, _ = await ask(tmp_path, monkeypatch, damaged, ApiError(status=403))
    assert result["api_error_status"] == 403


async def test_tools_of_a_broken_reply_run_and_the_model_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = reply(tool("Bash", command="ls"), "And then")
    result, client = await ask(
        tmp_path, monkeypatch, Broken(reply=begun, after=5), reply("That is all.")
    )
    assert result["result"] == "That is all."
    assert len(client.results()) == 1
    failures = [line for line in client.lines if line.get("api_error") == "connection_failed"]
    assert [line["message"]["stop_reason"] for line in failures] == ["tool_use"]


async def test_tool_calls_reset_how_often_a_long_reply_may_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [reply("More.", stop_reason="max_tokens")] * 3
    result, _ = await ask(
        tmp_path, monkeypatch, *long, reply(tool("Bash", command="ls")), *long, reply("Done.")
    )
    assert (result["result"], result["is_error"]) == ("Done.", False)


async def test_a_spent_budget_ends_every_later_turn_without_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sim_client(
        tmp_path, monkeypatch, reply("Dear."), flags=("--max-budget-usd=0.0001",)
    ) as client:
        first = await client.ask("Spend.")
        second = await client.ask("More.")
    assert first["subtype"] == second["subtype"] == "error_max_budget_usd"
    assert (first["stop_reason"], second["stop_reason"]) == ("end_turn", None)
    assert sum(line["type"] == "assistant" for line in client.lines) == 1


async def test_an_interrupt_ends_the_wait_for_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ApiError(status=429, headers={"retry-after": "3600"})
    async with sim_client(tmp_path, monkeypatch, error) as client:
        asking = asyncio.create_task(client.ask("Hello."))
        await client.until(lambda line: line.get("subtype") == "api_retry")
        await client.control("interrupt")
        result = await asking
    assert result["subtype"] == "error_during_execution"
