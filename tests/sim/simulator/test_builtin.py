"""What the simulator plays without a scenario."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse_sim.scenario import ModelRequest, Reply
from pilothouse_sim.simulator.builtin import BuiltinScript
from tests.support.docs import page

Messages = list[dict[str, Any]]


def played(messages: Messages) -> Reply:
    found = BuiltinScript().next(ModelRequest(body={"messages": messages}))
    assert isinstance(found, Reply)
    return found


def tool_of(found: Reply) -> Any:
    return next((step for step in found.steps if hasattr(step, "input")), None)


def words_of(found: Reply) -> str:
    return "".join(getattr(step, "text", "") for step in found.steps)


class Talk:
    """A conversation with the simulator's model, in which a test plays the tools."""

    def __init__(self, prompt: str) -> None:
        self._messages: Messages = [{"role": "user", "content": prompt}]
        self.found = played(self._messages)

    @property
    def tool(self) -> str | None:
        return getattr(tool_of(self.found), "name", None)

    @property
    def words(self) -> str:
        return words_of(self.found)

    def ends(self, text: str, *, is_error: bool = False) -> Talk:
        """The tool that was called has ended so."""
        number = f"t{len(self._messages)}"
        call = {"type": "tool_use", "id": number, "name": self.tool, "input": {}}
        result = {"type": "tool_result", "tool_use_id": number, "content": text}
        self._messages += [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{**result, "is_error": is_error}]},
        ]
        self.found = played(self._messages)
        return self


@pytest.mark.parametrize(
    "prompt",
    [
        "Write a file.",
        "Run a command.",
        "Ask me a question.",
        "Do the tests pass?",
        "Send an agent.",
    ],
)
def test_what_was_denied_is_not_claimed(prompt: str) -> None:
    done = Talk(prompt).ends("fine")
    denied = Talk(prompt).ends("Not on a Friday.\nSTOP", is_error=True)
    assert (denied.tool, done.tool) == (None, None)
    assert denied.words.endswith("Not on a Friday.")
    assert denied.words != done.words


def test_what_a_first_step_did_not_find_is_not_changed() -> None:
    talk = Talk("Edit it.")
    assert talk.tool == "Read"
    assert Talk("Edit it.").ends("1 Hello").tool == "Edit"
    assert talk.ends("File does not exist.", is_error=True).tool is None
    assert talk.words == "Nothing was changed: File does not exist."


def test_a_plan_that_is_to_be_revised_is_planned_again_and_then_approved() -> None:
    talk = Talk("Make a plan.")
    assert talk.tool == "EnterPlanMode"
    assert talk.ends("on").tool == "Write"
    assert talk.ends("written").tool == "ExitPlanMode"
    talk.ends("The user said:\nMind the tide", is_error=True)
    assert talk.tool == "Write"
    assert "Mind the tide" in tool_of(talk.found).input["content"]
    assert talk.ends("written").tool == "ExitPlanMode"
    assert talk.ends("approved").words == "Plan settled."


def test_a_plan_that_is_rejected_is_not_planned_again() -> None:
    talk = Talk("Make a plan.")
    while talk.tool != "ExitPlanMode":
        talk.ends("on")
    talk.ends("The user rejected the plan.", is_error=True)
    assert talk.tool is None
    assert talk.words == "There is no plan, so nothing is done: The user rejected the plan."


def test_it_does_not_plan_for_ever() -> None:
    talk = Talk("Make a plan.").ends("on")
    for _ in range(3):
        talk.ends("written").ends("No.", is_error=True)
    assert (talk.tool, talk.words) == (None, "There is no plan, so nothing is done: No.")


@pytest.mark.parametrize(
    "prompt", ["Explain my profile.", "Already done?", "An exchange of currents"]
)
def test_a_word_within_another_picks_nothing(prompt: str) -> None:
    assert "I am the simulator" in Talk(prompt).words


@pytest.mark.parametrize(
    ("where", "prompt", "tool"),
    [
        ("../README.md", "Write a file.", "Write"),
        ("../README.md", "Do the tests pass?", "Bash"),
        ("tutorial.md", "Which files are here?", "Bash"),
        ("tutorial.md", "Read the README.", "Read"),
        ("tutorial.md", "Do the tests pass?", "Bash"),
    ],
)
def test_a_prompt_of_the_documentation_brings_the_tool_that_the_page_speaks_of(
    where: str, prompt: str, tool: str
) -> None:
    assert prompt in page(where)
    assert Talk(prompt).tool == tool


def test_the_tutorials_command_is_the_one_its_handler_allows() -> None:
    command = tool_of(Talk("Do the tests pass?").found).input["command"]
    assert 'startswith("python -m pytest")' in page("tutorial.md")
    assert command.startswith("python -m pytest")
