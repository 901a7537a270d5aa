"""Replaying a cassette: order, names, leniency, and where a client and a recording part."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pilothouse import Client, Options
from pilothouse.errors import SessionEnded
from pilothouse_sim.cassettes import Cassette, CassetteEntry, CassetteHeader, CassetteWriter, read
from pilothouse_sim.simulator.cassette import write_player
from pilothouse_sim.simulator.replay.actions import Action, EndReplay, WriteLine
from pilothouse_sim.simulator.replay.names import HostPlace
from pilothouse_sim.simulator.replay.player import Player
from tests.support.waiting import DEADLINE

Json = dict[str, Any]

SESSION = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
PROMPT_ID = "33333333-3333-4333-8333-333333333333"
RECORDED = HostPlace("/home/user/boat", "/home/user", "/home/user/.claude")
LIVE = HostPlace("/srv/boat", "/home/ann", "/home/ann/.claude")


# The wire's lines, short


def prompt(text: Any, **more: Any) -> Json:
    return {"type": "user", "message": {"role": "user", "content": text}, **more}


def request(subtype: str, request_id: str = "req_1_aaaa", **fields: Any) -> Json:
    body = {"subtype": subtype, **fields}
    return {"type": "control_request", "request_id": request_id, "request": body}


def answer(request_id: str, response: Json | None = None) -> Json:
    body = {"subtype": "success", "request_id": request_id, "response": response or {}}
    return {"type": "control_response", "response": body}


def refusal(request_id: str, error: str = "no") -> Json:
    body = {"subtype": "error", "request_id": request_id, "error": error}
    return {"type": "control_response", "response": body}


def asks(request_id: str, **tool_input: Any) -> Json:
    return request("can_use_tool", request_id, tool_name="Bash", input=tool_input)


def says(text: str, **more: Any) -> Json:
    return {"type": "assistant", "message": {"content": text}, "session_id": SESSION, **more}


RESULT: Json = {"type": "result", "subtype": "success", "session_id": SESSION}


def tape(*entries: tuple[str, Any], command: tuple[str, ...] = ()) -> Cassette:
    """A cassette of these lines; an int is an exit code or a signal, None an end of stream."""
    made = [_entry(index, kind, what) for index, (kind, what) in enumerate(entries)]
    header = CassetteHeader(
        command=command, cwd=RECORDED.cwd, home=RECORDED.home, config_dir=RECORDED.config_dir
    )
    return Cassette(Path("talk.jsonl"), header, tuple(made))


def _entry(index: int, kind: Any, what: Any) -> CassetteEntry:
    number, at = index + 2, float(index)
    if kind == "exit":
        return CassetteEntry(at, kind, code=what, number=number)
    if kind == "signal":
        return CassetteEntry(at, kind, signal=what, number=number)
    data = what if what is None or isinstance(what, bytes) else json.dumps(what).encode()
    return CassetteEntry(at, kind, data, number=number)


class Play:
    """A player, and what it wrote."""

    def __init__(self, cassette: Cassette, *command: str, place: HostPlace = LIVE) -> None:
        self.player = Player(cassette, command, place, 4711)
        self.written: list[Json] = []
        self.errors = ""
        self.end: EndReplay | None = None
        self._note(self.player.start())

    def say(self, *messages: Json | bytes) -> list[Json]:
        """Say these lines; what came by them."""
        before = len(self.written)
        for each in messages:
            line = each if isinstance(each, bytes) else json.dumps(each).encode()
            self._note(self.player.receive_line(line))
        return self.written[before:]

    def close(self) -> EndReplay | None:
        self._note(self.player.receive_eof())
        return self.end

    def signal(self, number: int) -> None:
        self._note(self.player.receive_signal(number))

    def _note(self, actions: list[Action]) -> None:
        for action in actions:
            assert self.end is None
            if isinstance(action, EndReplay):
                self.end = action
            elif action.stream == "out":
                self.written.append(json.loads(action.data))
            else:
                self.errors += action.data.decode()


# Order


def test_lines_come_when_what_they_follow_was_said() -> None:
    play = Play(
        tape(
            ("in", prompt("one")),
            ("out", says("1")),
            ("in", prompt("two")),
            ("out", says("2")),
            ("in", None),
            ("exit", 0),
        )
    )
    assert play.written == []
    assert [line["message"]["content"] for line in play.say(prompt("one"))] == ["1"]
    assert [line["message"]["content"] for line in play.say(prompt("two"))] == ["2"]
    assert play.end is None
    assert play.close() == EndReplay(0)


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_answers_to_several_open_questions_may_come_in_any_order(order: tuple[str, ...]) -> None:
    questions = [("out", asks(each, command=each)) for each in "abc"]
    answers = [("in", answer(each, {"behavior": "allow"})) for each in "bca"]
    play = Play(tape(*questions, *answers, ("out", RESULT), ("exit", 0)))
    assert len(play.written) == 3
    said = play.say(*(answer(each, {"behavior": "allow"}) for each in order))
    assert [line["type"] for line in said] == ["result"]


def test_a_request_may_come_before_a_prompt_that_it_followed() -> None:
    model = request("set_model", model="opus")
    recording = tape(
        ("in", prompt("go")), ("in", model), ("out", answer("req_1_aaaa")), ("out", RESULT)
    )
    play = Play(recording)
    assert play.say(model) == []
    assert [line["type"] for line in play.say(prompt("go"))] == ["control_response", "result"]


def test_what_only_reads_is_answered_when_it_comes_and_never_waited_for() -> None:
    usage = request("get_context_usage", "req_7_aaaa")
    recording = tape(
        ("in", prompt("go")),
        ("in", usage),
        ("out", answer("req_7_aaaa", {"totalTokens": 5})),
        ("out", RESULT),
        ("exit", 0),
    )
    early = Play(recording)
    [reply] = early.say(request("get_context_usage", "mine"))
    assert reply["response"] == answer("mine", {"totalTokens": 5})["response"]
    assert early.say(prompt("go")) == [early.written[-1]]
    without = Play(recording)
    assert [line["type"] for line in without.say(prompt("go"))] == ["result"]


def test_an_answer_that_crossed_its_withdrawal_is_neither_awaited_nor_missed() -> None:
    cancel = {"type": "control_cancel_request", "request_id": "q"}
    late = answer("q", {"behavior": "allow"})
    for recording in (
        tape(("out", asks("q")), ("out", cancel), ("in", late), ("out", RESULT)),
        tape(("out", asks("q")), ("out", cancel), ("out", RESULT)),
    ):
        play = Play(recording)
        assert [line["type"] for line in play.written][-1] == "result"
        assert play.say(late) == []
        assert play.end is None


def test_keep_alive_and_blank_lines_mean_nothing() -> None:
    play = Play(tape(("in", {"type": "keep_alive"}), ("in", prompt("go")), ("out", RESULT)))
    assert play.say({"type": "keep_alive"}, b"", b"  ") == []
    assert len(play.say(prompt("go"))) == 1


def test_lines_that_are_no_json_are_compared_to_the_byte() -> None:
    recording = tape(("in", b"\xff noise"), ("out", RESULT))
    assert len(Play(recording).say(b"\xff noise")) == 1
    other = Play(recording)
    other.say(b"\xff noises")
    assert other.end == EndReplay(1)


def test_an_exit_without_an_end_of_input_comes_by_itself() -> None:
    assert Play(tape(("out", RESULT), ("exit", 7))).end == EndReplay(7)


def test_a_signal_is_waited_for() -> None:
    play = Play(tape(("signal", 2), ("out", RESULT), ("exit", 0)))
    assert play.written == []
    play.signal(2)
    assert (len(play.written), play.end) == (1, EndReplay(0))


def test_the_end_of_input_is_waited_for_where_a_question_was_open() -> None:
    play = Play(tape(("out", asks("q")), ("in", None), ("out", RESULT), ("exit", 0)))
    assert len(play.written) == 1
    assert play.close() == EndReplay(0)
    assert len(play.written) == 2


def test_a_turn_goes_on_although_the_recorded_client_had_ended_its_input() -> None:
    recording = tape(("in", prompt("go")), ("in", None), ("out", RESULT), ("exit", 3))
    play = Play(recording)
    assert len(play.say(prompt("go"))) == 1
    assert play.end is None
    assert play.close() == EndReplay(3)


def test_a_recording_without_an_end_ends_with_the_input() -> None:
    play = Play(tape(("in", prompt("go")), ("out", RESULT)))
    play.say(prompt("go"))
    assert play.close() == EndReplay(0)


# Names


def test_ids_of_the_client_come_back_as_it_gave_them() -> None:
    recording = tape(
        ("in", prompt("go", uuid=PROMPT_ID)),
        ("out", RESULT | {"user_message_uuids": [PROMPT_ID]}),
    )
    [result] = Play(recording).say(prompt("go", uuid=OTHER))
    assert result["user_message_uuids"] == [OTHER]


def test_ids_of_the_cli_are_fresh_and_stay_the_same_throughout() -> None:
    call = says("x", uuid=OTHER, tool_use_id="toolu_scripted_0001")
    text = says("about toolu_scripted_0001, not toolu_scripted_0009")
    recording = tape(("out", call), ("out", text), ("out", call))
    first, told, again = Play(recording).written
    assert first == again
    assert first["uuid"] != OTHER
    assert first["session_id"] != SESSION
    assert first["tool_use_id"].startswith("toolu_")
    assert told["message"]["content"] == f"about {first['tool_use_id']}, not toolu_scripted_0009"
    assert Play(recording).written[0]["uuid"] != first["uuid"]


def test_what_the_client_says_of_a_fresh_id_is_understood() -> None:
    recording = tape(
        ("out", asks(PROMPT_ID) | {"tool_use_id": "toolu_a1b2c3"}),
        ("in", answer(PROMPT_ID, {"behavior": "deny", "message": "not toolu_a1b2c3"})),
        ("out", RESULT),
    )
    play = Play(recording)
    asked = play.written[0]
    assert asked["request_id"] != PROMPT_ID
    denial = {"behavior": "deny", "message": f"not {asked['tool_use_id']}"}
    assert len(play.say(answer(asked["request_id"], denial))) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["--session-id", OTHER],
        [f"--session-id={OTHER}"],
        ["-p", f"--resume={OTHER}"],
        [f"--resume={SESSION}", "--fork-session", f"--session-id={OTHER}"],
    ],
)
def test_the_session_has_the_id_the_command_line_gives(command: list[str]) -> None:
    [line] = Play(tape(("out", RESULT)), *command).written
    assert line["session_id"] == OTHER


def test_folders_are_those_of_the_live_host_in_both_directions() -> None:
    path = "/home/user/.claude/projects/-home-user-boat/x.jsonl"
    recording = tape(
        ("in", prompt("read /home/user/boat/a.txt")),
        ("out", says("in /home/user/boat, not /home/username", transcript_path=path)),
    )
    [line] = Play(recording).say(prompt("read /srv/boat/a.txt"))
    assert line["message"]["content"] == "in /srv/boat, not /home/username"
    assert line["transcript_path"] == "/home/ann/.claude/projects/-srv-boat/x.jsonl"


def test_the_greeting_has_the_live_process_id() -> None:
    recording = tape(("in", request("initialize")), ("out", answer("req_1_aaaa", {"pid": 1})))
    [greeting] = Play(recording).say(request("initialize", "mine"))
    assert greeting["response"] == {
        "subtype": "success",
        "request_id": "mine",
        "response": {"pid": 4711},
    }


def hooks(**events: list[tuple[str | None, list[str]]]) -> Json:
    return {
        event: [{"matcher": matcher, "hookCallbackIds": ids} for matcher, ids in matchers]
        for event, matchers in events.items()
    }


def test_hooks_are_called_by_the_ids_that_the_client_registered() -> None:
    recorded = request(
        "initialize", hooks=hooks(Stop=[(None, ["a"])], PreToolUse=[("Bash", ["a"])])
    )
    call = request("hook_callback", "h", callback_id="a", input={"hook_event_name": "PreToolUse"})
    live = request(
        "initialize", "i", hooks=hooks(PreToolUse=[("Bash", ["x"])], Stop=[("*", ["y"])])
    )
    [line] = Play(tape(("in", recorded), ("out", call))).say(live)
    assert line["request"]["callback_id"] == "x"


# Clients of another make


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        (prompt("go", session_id="", uuid=OTHER), prompt("go", session_id="default")),
        (prompt("go"), prompt([{"type": "text", "text": "go"}], parent_tool_use_id=None)),
        (prompt("the key redacted-key-1"), prompt("the key sk-ant-123456")),
        (request("interrupt"), request("interrupt", reason="enough")),
        (
            request("initialize", agents={}, sdkMcpServers=["ship"]),
            request("initialize", hooks=None, sdkMcpServers=["ship"], title="x"),
        ),
        (request("set_model", model=None), request("set_model")),
    ],
)
def test_the_same_said_otherwise_is_the_same(recorded: Json, live: Json) -> None:
    assert len(Play(tape(("in", recorded), ("out", RESULT))).say(live)) == 1


MCP_CALL = {"message": {"method": "tools/call"}}
MCP_LIST = {"message": {"method": "tools/list"}}


@pytest.mark.parametrize(
    ("asked", "recorded", "live"),
    [
        (
            asks("q", command="ls"),
            {"behavior": "allow", "updatedInput": {"command": "ls"}},
            {"behavior": "allow", "toolUseID": "toolu_1"},
        ),
        (
            asks("q"),
            {"behavior": "deny", "message": "no", "interrupt": False},
            {"behavior": "deny", "message": "no"},
        ),
        (request("hook_callback", "q"), {}, {"continue": True, "suppressOutput": False}),
        (
            request("mcp_message", "q", **MCP_CALL),
            {"mcp_response": {"result": {"content": ["5"], "structuredContent": {"n": 5}}}},
            {"mcp_response": {"result": {"content": ["5"], "isError": False}}},
        ),
        (
            request("mcp_message", "q", **MCP_LIST),
            {"mcp_response": {"result": {"tools": [{"name": "a"}, {"name": "b"}]}}},
            {"mcp_response": {"result": {"tools": [{"name": "b", "title": "B"}, {"name": "a"}]}}},
        ),
        (
            request("mcp_message", "q", message={"method": "initialize"}),
            {"mcp_response": {"result": {"serverInfo": {"name": "x"}}}},
            {"mcp_response": {"result": {"serverInfo": {"name": "y"}}}},
        ),
    ],
)
def test_an_answer_is_compared_by_what_it_does(asked: Json, recorded: Json, live: Json) -> None:
    recording = tape(("out", asked), ("in", answer("q", recorded)), ("out", RESULT))
    assert len(Play(recording).say(answer("q", live))) == 1


def test_servers_named_on_the_command_line_are_servers_named_at_the_greeting() -> None:
    config = json.dumps({"mcpServers": {"ship": {"type": "sdk"}, "far": {"type": "http"}}})
    recording = tape(
        ("in", request("initialize", sdkMcpServers=["ship"])), ("out", answer("req_1_aaaa"))
    )
    assert len(Play(recording, "--mcp-config", config).say(request("initialize"))) == 1
    without = Play(recording)
    without.say(request("initialize"))
    assert "sdkMcpServers[0]: 'ship' in the recording, nothing now" in without.errors


def test_a_client_may_do_without_a_greeting() -> None:
    recording = tape(
        ("in", request("initialize")),
        ("out", answer("req_1_aaaa", {"commands": []})),
        ("in", prompt("go")),
        ("out", RESULT),
    )
    assert [line["type"] for line in Play(recording).say(prompt("go"))] == ["result"]


def test_a_late_greeting_is_answered_late() -> None:
    recording = tape(
        ("in", request("initialize")),
        ("out", answer("req_1_aaaa", {"commands": []})),
        ("in", prompt("go")),
        ("out", RESULT),
    )
    play = Play(recording)
    play.say(prompt("go"))
    assert play.say(request("initialize", "mine")) == [answer("mine", {"commands": []})]


def test_a_greeting_that_was_not_recorded_is_answered() -> None:
    play = Play(tape(("in", prompt("go")), ("out", RESULT)))
    [greeting] = play.say(request("initialize", "mine"))
    assert greeting["response"]["request_id"] == "mine"
    assert greeting["response"]["response"]["commands"] == []
    assert len(play.say(prompt("go"))) == 1


def test_a_prompt_is_echoed_to_a_client_that_wants_it() -> None:
    recording = tape(("in", prompt("go")), ("out", says("Aye.")), ("out", RESULT))
    echo, aye, result = Play(recording, "--replay-user-messages").say(prompt("go", uuid=OTHER))
    assert (echo["uuid"], echo["isReplay"]) == (OTHER, True)
    assert echo["session_id"] == aye["session_id"] == result["session_id"]
    assert len(Play(recording).say(prompt("go", uuid=OTHER))) == 2


def test_news_of_an_in_process_server_are_taken() -> None:
    news = request("mcp_message", "n", server_name="ship", message={"method": "notifications/x"})
    play = Play(tape(("in", prompt("go")), ("out", RESULT)))
    assert play.say(news) == [answer("n")]
    assert len(play.say(prompt("go"))) == 1


# Parting


def test_another_prompt_parts_with_both_in_the_message() -> None:
    play = Play(tape(("out", RESULT), ("in", prompt("x")), ("out", RESULT)))
    play.say(prompt("y"))
    assert play.end == EndReplay(1)
    assert play.errors == (
        "pilothouse-sim: the client parts from the recording talk.jsonl\n"
        "  the recording has: line 3, user prompt 'x'\n"
        "  there came: user prompt 'y'\n"
        "  first difference: message.content: 'x' in the recording, 'y' now\n"
    )


def test_another_decision_parts_at_its_path() -> None:
    allowed = answer("q", {"behavior": "allow", "updatedInput": {"command": "ls"}})
    play = Play(tape(("out", asks("q", command="ls")), ("in", allowed), ("out", RESULT)))
    play.say(answer("q", {"behavior": "allow", "updatedInput": {"command": "rm"}}))
    assert play.end == EndReplay(1)
    assert "line 3, can_use_tool (Bash) answer allow" in play.errors
    assert "response.response.updatedInput" in play.errors
    refused = Play(tape(("out", asks("q", command="ls")), ("in", allowed), ("out", RESULT)))
    refused.say(refusal("q", "no handler"))
    assert "there came: can_use_tool (Bash) answer: error 'no handler'" in refused.errors
    assert "response.subtype: 'success' in the recording, 'error' now" in refused.errors


def test_a_request_that_was_not_recorded_is_refused_with_the_reason() -> None:
    play = Play(tape(("in", prompt("x")), ("out", RESULT)))
    [reply] = play.say(request("set_model", "mine", model="opus"))
    assert reply["response"]["subtype"] == "error"
    assert reply["response"]["request_id"] == "mine"
    assert "line 2, user prompt 'x'" in reply["response"]["error"]
    assert "there came: control_request set_model" in play.errors
    assert play.end == EndReplay(1)


def test_a_hook_that_was_not_recorded_parts_at_the_greeting() -> None:
    play = Play(tape(("in", request("initialize")), ("out", answer("req_1_aaaa"))))
    play.say(request("initialize", hooks=hooks(Stop=[(None, ["a"])])))
    assert 'request.hooks.Stop: nothing in the recording, ["*"] now' in play.errors


def test_a_line_after_the_last_one_parts() -> None:
    play = Play(tape(("in", prompt("x")), ("out", RESULT), ("in", None), ("exit", 0)))
    play.say(prompt("x"))
    play.say(prompt("x"))
    assert "the recording has: line 4, the end of the client's input" in play.errors
    assert play.end == EndReplay(1)


def test_an_answer_to_nothing_parts() -> None:
    play = Play(tape(("out", RESULT), ("in", prompt("x")), ("out", RESULT)))
    play.say(answer("q"))
    assert "there came: an unasked answer" in play.errors


def test_an_early_end_of_input_gets_what_needs_none_and_tells_what_is_missing() -> None:
    play = Play(tape(("out", says("1")), ("in", prompt("x")), ("out", RESULT), ("exit", 0)))
    assert play.close() == EndReplay(1)
    assert "input ended before the recording's" in play.errors
    assert "line 3, user prompt 'x'" in play.errors


def test_pauses_are_those_of_the_recording() -> None:
    actions = Player(tape(("out", RESULT), ("out", RESULT)), (), LIVE, 1).start()
    assert [action.after for action in actions if isinstance(action, WriteLine)] == [0.0, 1.0]


# As a process


def write(path: Path, *entries: tuple[str, Any]) -> Path:
    recording = tape(*entries)
    writer = CassetteWriter(path, recording.header)
    for entry in recording.entries:
        writer.write(entry)
    writer.close()
    return path


@pytest.fixture
def plain_turn(tmp_path: Path) -> Path:
    return write(
        tmp_path / "talk.jsonl",
        ("in", request("initialize")),
        ("out", answer("req_1_aaaa", {"claude_code_version": "2.1.325", "pid": 1})),
        ("in", prompt("go", uuid=PROMPT_ID)),
        ("out", {"type": "system", "subtype": "init", "session_id": SESSION, "cwd": RECORDED.cwd}),
        ("out", prompt("go", uuid=PROMPT_ID, isReplay=True, session_id=SESSION)),
        ("out", says("Aye.")),
        ("out", RESULT | {"result": "Aye.", "user_message_uuids": [PROMPT_ID]}),
        ("err", b"a warning of /home/user/boat"),
        ("in", None),
        ("exit", 3),
    )


def run(launcher: Path, *arguments: str, said: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [str(launcher), *arguments]
    return subprocess.run(command, input=said, capture_output=True, check=False, timeout=DEADLINE)


async def test_a_client_talks_to_a_cassette(plain_turn: Path, tmp_path: Path) -> None:
    options = Options(cli_path=write_player(tmp_path, plain_turn), cwd=tmp_path)
    async with asyncio.timeout(DEADLINE), Client(options) as client:
        turn = await client.ask("go")
        assert (turn.outcome, turn.text) == ("finished", "Aye.")
        assert turn.result is not None
        assert turn.result.session_id == client.session_id


async def test_a_client_is_told_where_it_parts(plain_turn: Path, tmp_path: Path) -> None:
    options = Options(cli_path=write_player(tmp_path, plain_turn), cwd=tmp_path)
    async with asyncio.timeout(DEADLINE), Client(options) as client:
        with pytest.raises(SessionEnded, match="'go' in the recording, 'stop' now"):
            await client.ask("stop")


def test_its_version_is_that_of_the_recorded_cli(plain_turn: Path, tmp_path: Path) -> None:
    done = run(write_player(tmp_path, plain_turn), "-v")
    assert (done.stdout, done.returncode) == (b"2.1.325 (Claude Code)\n", 0)


def test_the_exit_code_and_stderr_are_those_of_the_recording(
    plain_turn: Path, tmp_path: Path
) -> None:
    said = b"".join(
        json.dumps(each).encode() + b"\n" for each in (request("initialize"), prompt("go"))
    )
    done = run(write_player(tmp_path, plain_turn), said=said)
    assert done.returncode == 3
    assert done.stderr.decode() == f"a warning of {Path.cwd()}\n"
    assert len(done.stdout.splitlines()) == 5


def test_input_may_be_a_file(plain_turn: Path, tmp_path: Path) -> None:
    with Path(os.devnull).open("rb") as nothing:
        done = subprocess.run(
            [write_player(tmp_path, plain_turn)],
            stdin=nothing,
            capture_output=True,
            check=False,
            timeout=DEADLINE,
        )
    assert done.returncode == 1
    assert b"line 2, control_request initialize" in done.stderr


def test_an_end_by_a_signal_is_one(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl"
    writer = CassetteWriter(path, CassetteHeader())
    writer.write(CassetteEntry(0.0, "exit", signal=signal.SIGKILL))
    writer.close()
    assert run(write_player(tmp_path, path)).returncode == -signal.SIGKILL


def test_a_file_that_is_no_cassette_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    done = run(write_player(tmp_path, path))
    assert done.returncode == 1
    assert b"is no cassette" in done.stderr
    with pytest.raises(ValueError, match="is no cassette"):
        read(path)
