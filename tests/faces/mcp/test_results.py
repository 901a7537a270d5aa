"""What is told of a session fits what the tools promise, whatever its state."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pilothouse.faces.mcp import results
from pilothouse.faces.mcp.tools import TOOLS
from pilothouse.sessions.contract import (
    Listed,
    Listing,
    Queued,
    Retry,
    Status,
    Tokens,
    ToolRun,
    Waiting,
)
from tests.faces.http.fake import NOW
from tests.sessions.questions.asks import EVERY, posed

PROMISED = {each["name"]: Draft202012Validator(each["outputSchema"]) for each in TOOLS}
STATES = ("active", "awaiting_input", "done", "error", "interrupted")
NOT_SIGNED_IN = "Not logged in · Please run /login"


def status(state: Any, **more: Any) -> Status:
    return Status(
        session_id="s-1",
        state=state,
        cwd="/srv/boat",
        live=True,
        started_at=NOW,
        updated_at=NOW,
        cursor=17,
        **more,
    )


def eventful(state: Any) -> Status:
    """A session with something in every place."""
    return status(
        state,
        reason="it went wrong",
        title="A title",
        model="opus",
        mode="plan",
        simulated=True,
        foreign=True,
        waiting_on=Waiting(what="api", detail="for a while"),
        cost_usd=0.25,
        tokens=Tokens(input=1, output=2, cache_read=3, cache_write=4),
        turns=2,
        running_tools=[ToolRun(id="1", name="Bash", state="running", detail="make")],
        recent_tools=[
            ToolRun(id="2", name="Read", state="completed"),
            ToolRun(id="3", name="Edit", state="failed"),
            ToolRun(id="4", name="Write", state="denied"),
        ],
        questions=[posed(each) for each in EVERY.values()],
        queued=[Queued(prompt_id="p", text="more", said_at=NOW, sent=True)],
        result="All is well.",
        output=["One", "Two"],
        parent="s-0",
        successor="s-2",
    )


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("make", [status, eventful])
@pytest.mark.parametrize("by", ["anyone", "form", "person"])
def test_what_is_told_is_what_was_promised(make: Any, state: str, by: Any) -> None:
    whole = results.full(make(state), {"resumed": True}, answered_by=by)
    short = results.brief(make(state), {"newSessionId": "s-9"}, answered_by=by)
    for promised in ("claude_start", "claude_say", "claude_respond", "claude_interrupt"):
        PROMISED[promised].validate(short)
        PROMISED[promised].validate(whole)
    PROMISED["claude_status"].validate(whole)
    assert results.text(whole).startswith(f"Session s-1: {state}, resumed")
    assert "Next: " in results.text(short)


def test_a_session_that_was_made_elsewhere_is_told_as_promised() -> None:
    told = results.untouched(Listed(session_id="s-1", cwd=None, title="", updated_at=NOW))
    PROMISED["claude_status"].validate(told)
    assert "transcript" in results.text(told)


def test_tools_have_three_states() -> None:
    told = results.full(eventful("active"), {})["toolUseEvents"]
    assert [(each["toolName"], each["status"], each.get("error")) for each in told] == [
        ("Read", "completed", None),
        ("Edit", "completed", True),
        ("Write", "denied", None),
        ("Bash", "running", None),
    ]


def test_the_oldest_question_comes_first() -> None:
    told = results.full(eventful("awaiting_input"), {})
    assert len(told["pendingQuestions"]) == len(EVERY)
    assert told["pendingQuestion"] == told["pendingQuestions"][0]
    text = results.text(told)
    for each in told["pendingQuestions"]:
        assert each["id"] in text


def test_a_result_is_told_when_there_is_one() -> None:
    assert results.full(status("done", result="Well."), {})["result"] == "Well."
    assert results.brief(status("done", result="Well."), {})["result"] == "Well."
    assert "result" not in results.full(status("active", result="Well."), {})


def test_a_text_does_not_say_twice_what_the_output_ends_with() -> None:
    told = results.full(status("done", result="Well.", output=["So", "Well."]), {})
    assert results.text(told).count("Well.") == 1
    told = results.full(status("done", result="Well.", output=[]), {})
    assert "Result:\nWell." in results.text(told)


def test_who_is_not_signed_in_is_told_how_to() -> None:
    for failed in (
        status("error", reason="the turn failed", result=NOT_SIGNED_IN),
        status("error", reason=NOT_SIGNED_IN),
        status("error", reason="Invalid API key · Fix external API key"),
    ):
        assert "/login, or set ANTHROPIC_API_KEY" in results.full(failed, {})["error"]
    assert "sign" not in results.full(status("error", reason="the disk is full"), {})["error"]
    assert "sign" not in results.full(status("interrupted", reason="see /login"), {})["error"]


def test_who_is_not_signed_in_is_told_so_while_the_cli_still_tries() -> None:
    failing = Retry(attempt=1, max_retries=10, delay_ms=1, error="authentication_failed")
    told = results.full(status("active", retry=failing), {"note": "Wait."})
    assert "ANTHROPIC_API_KEY" in told["note"]
    assert "Wait." in told["note"]
    assert told["note"] in results.text(told)
    busy = Retry(attempt=1, max_retries=10, delay_ms=1, error="overloaded")
    assert results.full(status("active", retry=busy), {"note": "Wait."})["note"] == "Wait."


def test_what_no_client_can_read_is_replaced() -> None:
    told = {"title": "a\ud800b", "lines": ["\udfff", 1, None, {"\ud800": True}]}
    assert results.writable(told) == {"title": "a?b", "lines": ["?", 1, None, {"?": True}]}
    fine = {"title": "a"}
    assert results.writable(fine) is fine


def test_output_is_bounded_and_its_newest_part_is_kept() -> None:
    told = results.full(status("done", output=["old " * 10_000, "new " * 5_000, "end"]), {})
    assert sum(map(len, told["recentOutput"])) < results.SHOWN + 100
    assert told["recentOutput"][-1] == "end"
    assert told["recentOutput"][0].endswith("[cut]")
    long = results.full(status("done", result="word " * 10_000), {})
    assert len(long["result"]) < results.SHOWN + 200
    assert "pilothouse://sessions/s-1/transcript" in long["result"]


def test_sessions_are_listed_as_promised() -> None:
    ours = Listed(
        session_id="s-1",
        cwd="/srv",
        title="Ours",
        updated_at=1_700_000_000_000,
        state="awaiting_input",
        live=True,
        questions=2,
        foreign=True,
    )
    other = Listed(session_id="s-2", cwd=None, title="Of old", updated_at=0)
    told = results.listing(Listing(sessions=[ours, other], total=5))
    PROMISED["claude_list"].validate(told)
    assert told["sessions"][0] == {
        "sessionId": "s-1",
        "projectDirectory": "/srv",
        "displayText": "Ours",
        "timestamp": "2023-11-14T22:13:20+00:00",
        "isActive": True,
        "activeStatus": "awaiting_input",
        "openQuestions": 2,
        "foreign": True,
    }
    assert "activeStatus" not in told["sessions"][1]
    text = results.listing_text(told)
    assert "s-1 awaiting_input, 2 open questions" in text
    assert "(3 more: give a higher limit)" in text
    assert "No sessions" in results.listing_text(results.listing(Listing(sessions=[])))
