from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pilothouse_sim.scenario import (
    ApiError,
    Branch,
    Broken,
    Gate,
    ModelRequest,
    Pause,
    Raw,
    Reply,
    Scenario,
    ScenarioError,
    Script,
    Text,
    Thinking,
    ToolCall,
    Usage,
    When,
    computed,
    load,
    reply,
    save,
    text,
    tool,
)

if TYPE_CHECKING:
    from pathlib import Path


def asked(prompt: str = "Hello.", **body: Any) -> ModelRequest:
    messages = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
    return ModelRequest.parse({"messages": messages, "tools": [{"name": "Bash"}], **body})


def words(answer: object) -> str:
    assert isinstance(answer, Reply)
    return "".join(step.text for step in answer.steps if isinstance(step, Text))


def test_a_scenario_survives_the_way_through_a_file(tmp_path: Path) -> None:
    scenario = Scenario(
        name="all kinds",
        replies=[
            Reply(
                steps=(
                    Thinking(thinking="Hm."),
                    Text(text="Hi", chunk=1, delay=0.5),
                    Text(chunks=("a", "b")),
                    Gate("here"),
                    Pause(1.0),
                    ToolCall(name="Bash", input={"command": "ls"}, id="toolu_1"),
                    Raw({"type": "ping"}),
                ),
                stop_reason="max_tokens",
                usage=Usage(input_tokens=3),
            ),
            ApiError(status=429, headers={"retry-after": "1"}),
            Broken(reply=reply("cut"), after=2, how="malformed"),
        ],
        branches=[Branch(when=When(prompt_contains="sub"), replies=(reply("sub"),))],
    )
    path = tmp_path / "scenario.json"
    path.write_bytes(msgspec.json.encode(scenario))
    assert load(path) == scenario


def test_a_file_needs_only_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text('{"replies": [{"type": "reply", "steps": [{"type": "text", "text": "Hi"}]}]}')
    assert load(path).replies == [reply("Hi")]


def test_a_computed_reply_cannot_come_from_a_file() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            '{"replies": [{"type": "computed", "answer": "os.getcwd"}]}', type=Scenario
        )


def test_a_reply_with_a_tool_call_stops_for_the_tool() -> None:
    assert reply("Hi").stopped_by == "end_turn"
    assert reply("Hi", tool("Bash", command="ls")).stopped_by == "tool_use"
    assert reply("Hi", stop_reason="refusal").stopped_by == "refusal"


def test_text_is_cut_into_chunks_without_loss() -> None:
    assert text("abcde", chunk=2).pieces() == ("ab", "cd", "e")
    assert text("abcde").pieces() == ("abcde",)
    assert text("").pieces() == ()


def test_an_error_knows_the_type_of_its_status() -> None:
    assert ApiError(status=529).error_type == "overloaded_error"
    assert ApiError(status=418).error_type == "api_error"
    assert ApiError(status=400, error="billing_error").error_type == "billing_error"


def test_replies_are_given_in_order_and_then_run_out() -> None:
    script = Script(Scenario(replies=[reply("one"), reply("two")]))
    assert [words(script.next(asked())) for _ in range(2)] == ["one", "two"]
    assert not script.unscripted
    assert "ends here" in words(script.next(asked()))
    assert len(script.unscripted) == 1


def test_a_branch_has_replies_of_its_own() -> None:
    branch = Branch(when=When(prompt_contains="harbour"), replies=(reply("agent"),))
    script = Script(Scenario(replies=[reply("main"), reply("more")], branches=[branch]))
    assert words(script.next(asked("Go."))) == "main"
    assert words(script.next(asked("Look around the harbour."))) == "agent"
    assert words(script.next(asked("Go on."))) == "more"


def test_a_computed_reply_sees_the_request() -> None:
    script = Script(Scenario(replies=[computed(lambda request: reply(request.last.upper()))]))
    assert words(script.next(asked("echo"))) == "ECHO"


@pytest.mark.parametrize(
    "aside",
    [
        asked(max_tokens=1),
        asked(model="claude-haiku-4-5", tools=[]),
        asked("Your task is to create a detailed summary of the conversation so far."),
    ],
    ids=["probe", "small model", "compaction"],
)
def test_asides_of_the_cli_do_not_use_up_the_script(aside: ModelRequest) -> None:
    script = Script(Scenario(replies=[reply("main")]))
    script.next(aside)
    assert words(script.next(asked())) == "main"


def test_a_branch_may_answer_an_aside() -> None:
    branch = Branch(when=When(model_contains="haiku"), replies=(reply("mine"),))
    script = Script(Scenario(branches=[branch]))
    assert words(script.next(asked(model="claude-haiku-4-5", tools=[]))) == "mine"


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        (When(), True),
        (When(prompt_contains="first"), True),
        (When(prompt_contains="result"), False),
        (When(last_contains="result"), True),
        (When(system_contains="pilot"), True),
        (When(has_tool="Bash"), True),
        (When(has_tool="Read"), False),
        (When(lacks_tool="Read"), True),
        (When(lacks_tool="Bash"), False),
        (When(prompt_contains="first", has_tool="Read"), False),
    ],
)
def test_a_rule_holds_when_all_its_conditions_do(when: When, *, holds: bool) -> None:
    request = ModelRequest.parse(
        {
            "model": "m",
            "system": [{"type": "text", "text": "You are a pilot."}],
            "tools": [{"name": "Bash"}],
            "messages": [
                {"role": "user", "content": "the first words"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash"}]},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "content": [{"type": "text", "text": "the result"}],
                        }
                    ],
                },
                {"role": "system", "content": "a reminder"},
            ],
        }
    )
    assert when.holds(request) is holds


def test_placeholders_are_filled_with_what_the_request_knows() -> None:
    call = tool("Write", file_path="{{cwd}}/a", edits=[{"path": "{{home}}/b", "times": 2}])
    script = Script(Scenario(replies=[reply("In {{cwd}}.", call, Text(chunks=("{{cwd}}", "!")))]))
    request = ModelRequest(tools=("Write",), facts={"cwd": "/sea", "home": "/port"})
    filled = script.next(request)
    assert isinstance(filled, Reply)
    assert filled.steps == (
        text("In /sea."),
        tool("Write", file_path="/sea/a", edits=[{"path": "/port/b", "times": 2}]),
        Text(chunks=("/sea", "!")),
    )


def test_a_broken_reply_is_filled_as_well_and_an_unknown_fact_is_left() -> None:
    script = Script(Scenario(replies=[Broken(reply=reply("{{cwd}} {{plan_file}}"), after=2)]))
    broken = script.next(ModelRequest(tools=("Bash",), facts={"cwd": "/sea"}))
    assert isinstance(broken, Broken)
    assert words(broken.reply) == "/sea {{plan_file}}"


def test_a_real_request_tells_where_the_cli_works() -> None:
    request = asked(
        "Write your plan at /port/.claude/plans/leap-calm-sea.md now.",
        system=[
            {"type": "text", "text": "Primary working directory: /port/project\nOther: no"},
            {"type": "text", "text": "Memory at `/port/.claude/projects/-port-project/memory/`."},
        ],
    )
    assert request.facts == {
        "cwd": "/port/project",
        "home": "/port",
        "config_dir": "/port/.claude",
        "plan_file": "/port/.claude/plans/leap-calm-sea.md",
    }
    assert asked("Hello.").facts == {}


def test_a_saved_scenario_is_loaded_again(tmp_path: Path) -> None:
    scenario = Scenario(replies=[reply("Hi"), ApiError(status=529)])
    save(scenario, tmp_path / "scenario.json")
    assert load(tmp_path / "scenario.json") == scenario


def test_a_computed_reply_cannot_be_saved(tmp_path: Path) -> None:
    scenario = Scenario(replies=[computed(lambda _: reply("Hi"))])
    with pytest.raises(ScenarioError, match="computed"):
        save(scenario, tmp_path / "scenario.json")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ('{"replies": [', "scenario.json: not JSON: "),
        ("[]", "not a scenario: Expected `object`, got `array` (at the top)"),
        ('{"replies": [{"type": "nope"}]}', "Invalid value 'nope' (at replies[0].type)"),
        (
            '{"replies": [{"type": "reply", "steps": [{"type": "text", "text": 3}]}]}',
            "Expected `str`, got `int` (at replies[0].steps[0].text)",
        ),
        ('{"reply": []}', "Object contains unknown field `reply` (at the top)"),
        (
            '{"replies": [{"type": "reply", "steps": [{"type": "text", "txt": "Hi"}]}]}',
            "Object contains unknown field `txt` (at replies[0].steps[0])",
        ),
        (
            '{"branches": [{"when": {"prompt_has": "x"}, "replies": []}]}',
            "Object contains unknown field `prompt_has` (at branches[0].when)",
        ),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong_and_where(
    tmp_path: Path, data: str, complaint: str
) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(data)
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="nowhere"):
        load(tmp_path / "nowhere.json")
