"""The simulator's answers to control requests, one session in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pilothouse.protocol.connection import Connection, Role
from pilothouse.protocol.host_requests import CLIENT_REQUESTS
from pilothouse_sim.scenario import Scenario, Script, reply
from pilothouse_sim.simulator import controls
from pilothouse_sim.simulator.flags import parse
from pilothouse_sim.simulator.model import Model
from pilothouse_sim.simulator.outlet import Outlet
from pilothouse_sim.simulator.session import SimulatedSession

Message = dict[str, Any]


class Paper:
    """An end of the wire that keeps what is written to it."""

    def __init__(self) -> None:
        self.lines: list[Message] = []

    async def start(self, listener: object) -> None:
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        self.lines += [json.loads(line) for line in data.splitlines()]

    async def aclose(self) -> None:
        raise NotImplementedError


class Bench:
    """A session that nobody runs, and what it writes."""

    def __init__(self, session: SimulatedSession, paper: Paper) -> None:
        self.session = session
        self.paper = paper

    async def ask(self, subtype: str, **fields: Any) -> Message:
        """The response to a request, without its id."""
        await self.send(subtype, **fields)
        [response] = [line for line in self.paper.lines if line["type"] == "control_response"]
        self.paper.lines.remove(response)
        assert response["response"].pop("request_id") == "r"
        return response["response"]

    async def send(self, subtype: str, **fields: Any) -> None:
        """Asks, and leaves everything that is written where it is."""
        request = {"subtype": subtype, **fields}
        line = {"type": "control_request", "request_id": "r", "request": request}
        self.session.state.outlet.connection.receive_data(json.dumps(line).encode() + b"\n")
        await controls.answer(self.session, "r", request)

    def others(self) -> list[Message]:
        """The other lines written since."""
        lines, self.paper.lines = self.paper.lines, []
        return lines


Benches = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benches:
    """Makes sessions in a folder of their own."""
    cwd = tmp_path / "project"
    cwd.mkdir()
    monkeypatch.chdir(cwd)

    def make(*flags: str, replies: tuple[str, ...] = (), **environment: str) -> Bench:
        paper = Paper()
        outlet = Outlet(Connection(Role.CLI), paper, "session")
        model = Model(Script(Scenario(replies=[reply(words) for words in replies])), None)
        given = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "x", **environment}
        return Bench(SimulatedSession(parse(list(flags)), given, outlet, model), paper)

    return make


def error(text: str, **more: Any) -> Message:
    return {"subtype": "error", "error": text, **more}


def success(**body: Any) -> Message:
    return {"subtype": "success", "response": body}


DONE = {"subtype": "success"}


def test_every_request_of_a_client_has_somebody_who_answers_it() -> None:
    assert controls.ANSWERS.keys() == CLIENT_REQUESTS.keys()
    for subtype in controls.ANSWERS:
        assert callable(controls.handler_of(subtype))


async def test_an_unknown_request_is_refused(bench: Benches) -> None:
    words = "Unsupported control request subtype: x"
    assert await bench().ask("x") == error(words, error_code="unsupported_request")


async def test_a_conversation_is_not_forked_over_pipes(bench: Benches) -> None:
    refusal = success(forked=False, error="unsupported", reason="unsupported")
    assert await bench().ask("fork_conversation", title="another way") == refusal
    assert "title must be a string" in (await bench().ask("fork_conversation", title=1))["error"]


async def test_initialize_describes_the_session(bench: Benches) -> None:
    it = bench("--model", "haiku")
    answer = await it.ask("initialize")
    assert answer["pending_permission_requests"] == []
    assert answer["response"]["claude_code_version"] == "2.1.325"
    assert answer["response"]["current_permission_mode"] == "default"
    assert it.others() == []


async def test_a_second_initialize_tells_of_background_tasks(bench: Benches) -> None:
    it = bench()
    await it.ask("initialize")
    await it.ask("initialize")
    [told] = it.others()
    assert (told["subtype"], told["tasks"]) == ("background_tasks_changed", [])


@pytest.mark.parametrize("hooks", [5, {"Stop": ["x"]}, {"Stop": [{"hookCallbackIds": "x"}]}])
async def test_hooks_in_another_form_are_refused(bench: Benches, hooks: object) -> None:
    answer = await bench().ask("initialize", hooks=hooks)
    assert answer["error"].startswith("initialize: hooks must map hook events to arrays")


async def test_a_mode_is_set_and_told_of_when_it_is_another(bench: Benches) -> None:
    it = bench()
    assert await it.ask("set_permission_mode", mode="plan") == success(mode="plan")
    [told] = it.others()
    assert told["permissionMode"] == "plan"
    assert await it.ask("set_permission_mode", mode="plan") == success(mode="plan")
    assert it.others() == []
    assert await it.ask("set_permission_mode", mode="manual") == success(mode="default")


async def test_modes_that_cannot_be_are_refused_with_a_code(bench: Benches) -> None:
    it = bench()
    assert (await it.ask("set_permission_mode", mode="bogus"))["error_code"] == "invalid_mode"
    bypass = await it.ask("set_permission_mode", mode="bypassPermissions")
    assert bypass["error_code"] == "bypass_not_launched"


async def test_a_model_is_resolved(bench: Benches) -> None:
    it = bench()
    assert await it.ask("set_model", model="sonnet") == success(model="claude-sonnet-5-5")
    assert it.session.state.model_name == "claude-sonnet-5-5"
    assert await it.ask("set_model") == success(model="claude-opus-5-5")
    assert it.others() == []


async def test_a_new_model_is_noted_in_a_conversation(bench: Benches) -> None:
    it = bench()
    it.session.main.add("user", "hi")
    await it.ask("set_model", model="sonnet")
    [note] = it.others()
    said = "Set model to `sonnet (claude-sonnet-5-5)`"
    assert note["message"]["content"] == f"<local-command-stdout>{said}</local-command-stdout>"
    assert note["isReplay"] is True


async def test_a_model_that_is_refused_names_the_one_that_stays(bench: Benches) -> None:
    answer = await bench().ask("set_model", model=5)
    assert answer == error(
        "set_model: model must be a string",
        error_code="invalid_request",
        model="claude-opus-5-5",
    )


@pytest.mark.parametrize(
    ("subtype", "fields", "words"),
    [
        ("stop_task", {}, "stop_task: task_id must be a string"),
        ("mcp_call", {"tool": "Bash"}, "Not a fully-qualified MCP tool name: Bash"),
        ("mcp_call", {"tool": "mcp__x__y"}, "MCP server not connected: x"),
        ("mcp_reconnect", {"serverName": "x"}, "Server not found: x"),
        ("read_file", {"path": "/etc/hostname"}, "read denied: /etc/hostname"),
        ("rename_session", {"title": ""}, "title must be non-empty"),
        ("rewind_files", {"user_message_id": "x"}, "File rewinding is not enabled."),
        (
            "update_settings",
            {"source": "x", "settings": {}},
            "update_settings: unsupported source x",
        ),
        (
            "register_repo_root",
            {"directory": "x"},
            "register_repo_root: target path could not be resolved",
        ),
        (
            "get_context_usage",
            {"detail": "x"},
            "get_context_usage: detail must be 'summary' or 'full'",
        ),
    ],
)
async def test_what_cannot_be_done_is_refused_in_the_clis_words(
    bench: Benches, subtype: str, fields: Message, words: str
) -> None:
    assert await bench().ask(subtype, **fields) == error(words)


@pytest.mark.parametrize(
    ("subtype", "fields"),
    [
        ("set_max_thinking_tokens", {"max_thinking_tokens": 5}),
        ("set_has_subscribers", {"has_subscribers": None}),
        ("set_prompt_suggestions_paused", {"paused": True}),
        ("mcp_message", {}),
        ("seed_read_state", {}),
        ("apply_flag_settings", {"settings": {"x": 1}}),
    ],
)
async def test_some_successes_have_no_body(bench: Benches, subtype: str, fields: Message) -> None:
    assert await bench().ask(subtype, **fields) == DONE


async def test_a_title_is_announced_before_the_answer(bench: Benches) -> None:
    it = bench()
    await it.send("rename_session", title="Tour")
    assert [line.get("subtype") for line in it.paper.lines] == ["session_title_changed", None]


async def test_the_model_answers_beside_the_conversation(bench: Benches) -> None:
    it = bench(replies=("Because.",))
    answer = await it.ask("side_question", question="Why?")
    assert answer == success(response="Because.", synthetic=False)
    assert it.others()[0]["subtype"] == "control_request_progress"
    answer = await it.ask("generate_session_title", description="the sail is torn")
    assert answer == success(title="Scripted session")
    assert it.session.state.ledger.cost == pytest.approx(0.001)
    assert it.session.main.messages == []


async def test_a_title_takes_no_reply_of_the_script_and_few_words_get_none(bench: Benches) -> None:
    it = bench(replies=("Because.",))
    assert await it.ask("generate_session_title", description="the sails") == success(title=None)
    await it.ask("generate_session_title", description="the sail is torn")
    answer = await it.ask("side_question", question="Why?")
    assert answer == success(response="Because.", synthetic=False)


async def test_files_are_suggested_once_they_are_indexed(bench: Benches) -> None:
    it = bench()
    (it.session.state.cwd / "anchor.txt").write_text("hällo\n")
    first = await it.ask("file_suggestions", query="anch")
    assert first == success(suggestions=[], cwd=str(it.session.state.cwd))
    for query in ("anch", "", "at"):
        found = await it.ask("file_suggestions", query=query)
        assert found["response"]["suggestions"] == [{"path": "anchor.txt"}]
    assert (await it.ask("file_suggestions", query="ANCH"))["response"]["suggestions"] == []


async def test_a_file_is_read_whole_or_in_part(bench: Benches) -> None:
    it = bench()
    path = it.session.state.cwd / "anchor.txt"
    path.write_text("hällo\n")
    named = {"absPath": str(path), "requested_path": "anchor.txt"}
    whole = await it.ask("read_file", path="anchor.txt")
    assert whole == success(contents="hällo\n", lossy=False, **named)
    part = await it.ask("read_file", path="anchor.txt", max_bytes=2)
    assert part == success(contents="h\ufffd", truncated=True, lossy=True, **named)
    coded = await it.ask("read_file", path="anchor.txt", max_bytes=1, encoding="base64")
    assert coded == success(contents="aA==", truncated=True, encoding="base64", **named)


async def test_rules_are_listed_in_words(bench: Benches) -> None:
    it = bench("--allowedTools", "Bash(npm run:*),Edit", "--disallowedTools", "Bash(rm)")
    rules = (await it.ask("list_permission_rules"))["response"]["state"]["rules"]
    assert [(rule["behavior"], rule["rule"], rule["description"]) for rule in rules] == [
        (
            "allow",
            "Bash(npm run:*)",
            {"prefix": "Any Bash command starting with ", "emphasis": "npm run"},
        ),
        ("allow", "Edit", {"prefix": "Any use of the ", "emphasis": "Edit", "suffix": " tool"}),
        ("deny", "Bash(rm)", {"prefix": "The Bash command ", "emphasis": "rm"}),
    ]


async def test_settings_of_this_process_come_last(bench: Benches) -> None:
    it = bench("--settings", '{"cleanupPeriodDays": 7}')
    await it.ask("apply_flag_settings", settings={"effortLevel": "high"})
    body = (await it.ask("get_settings"))["response"]
    assert body["effective"] == {"cleanupPeriodDays": 7, "effortLevel": "high"}
    assert body["applied"]["effort"] == "high"


async def test_the_cost_is_told_in_words(bench: Benches) -> None:
    it = bench()
    nothing = (await it.ask("get_session_cost"))["response"]["text"]
    assert "Usage:                 0 input, 0 output, 0 cache read, 0 cache write" in nothing
    it.session.state.ledger.add("claude-sonnet-5-5", {"input_tokens": 1200, "output_tokens": 34})
    text = (await it.ask("get_session_cost"))["response"]["text"]
    assert text.splitlines()[0] == "Total cost:            $0.0027"
    line = "   claude-sonnet-5-5:  1.2k input, 34 output, 0 cache read, 0 cache write ($0.0027)"
    assert line in text.splitlines()


async def test_the_context_fills_two_hundred_squares(bench: Benches) -> None:
    body = (await bench().ask("get_context_usage"))["response"]
    assert [len(row) for row in body["gridRows"]] == [20] * 10
    used = sum(each["tokens"] for each in body["categories"] if each["kind"] == "used")
    assert body["totalTokens"] == used


async def test_a_conversation_is_exported_as_text(bench: Benches) -> None:
    it = bench()
    main = it.session.main
    main.add("user", "Hi, there!")
    main.add("assistant", [{"type": "text", "text": "Ahoy.\nThere."}])
    body = (await it.ask("export_conversation"))["response"]
    assert body["text"] == "\n\u276f Hi, there!\n\n● Ahoy.\n  There."
    assert body["default_filename"].endswith("-hi-there.txt")


@pytest.mark.parametrize(
    ("subtype", "fields"),
    [
        ("update_settings", {"source": 3, "settings": 5}),
        ("apply_flag_settings", {"settings": 5}),
        ("initialize", {"hooks": {}, "agents": [5]}),
    ],
)
async def test_members_of_another_type_get_an_error_for_an_answer(
    bench: Benches, subtype: str, fields: Message
) -> None:
    answer = await bench().ask(subtype, **fields)
    assert answer["subtype"] == "error"
    assert answer["error"]


async def test_a_handler_that_fails_answers_with_its_error(
    bench: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise TypeError("no such thing")

    monkeypatch.setattr(controls, "handler_of", lambda _: fail)
    answer = await bench().ask("reload_plugins")
    assert answer == {"subtype": "error", "error": "reload_plugins: TypeError: no such thing"}
