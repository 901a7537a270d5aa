"""The official Python SDK as the client: what its users do works with the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    Message,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolPermissionContext,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    get_session_messages,
    list_sessions,
    query,
    tool,
)

from pilothouse_sim.scenario import ApiError, gate, reply, thinking
from pilothouse_sim.scenario import tool as call
from tests.support.sim.sdk_port import OpenPort, Port
from tests.support.waiting import DEADLINE

Kind = TypeVar("Kind")
Clean = Callable[[dict[str, str]], None]
Choose = Callable[..., ClaudeAgentOptions]

COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [
        {"label": "Red", "description": "like a buoy"},
        {"label": "Blue", "description": "like the sea"},
    ],
    "multiSelect": False,
}


@pytest.fixture
def choose(only_env: Clean) -> Choose:
    """`choose(port, ...)` are options for that port's CLI, and nothing of this machine's."""

    def options(port: Port, **given: Any) -> ClaudeAgentOptions:
        only_env(port.env)
        return ClaudeAgentOptions(
            cli_path=port.cli_path, cwd=port.cwd, stderr=port.stderr.append, **given
        )

    return options


class Asked:
    """A permission callback that notes every question and answers them one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.questions: list[tuple[str, dict[str, Any], ToolPermissionContext]] = []

    async def __call__(
        self, name: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> Any:
        self.questions.append((name, given, context))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(given) if callable(answer) else answer

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.questions]


def of(kind: type[Kind], messages: list[Any]) -> list[Kind]:
    return [message for message in messages if isinstance(message, kind)]


def blocks(kind: type[Kind], messages: list[Message]) -> list[Kind]:
    whole = of(AssistantMessage, messages) + of(UserMessage, messages)
    lists = [message.content for message in whole if isinstance(message.content, list)]
    return [block for content in lists for block in content if isinstance(block, kind)]


def texts(messages: list[Message]) -> list[str]:
    return [block.text for block in blocks(TextBlock, messages)]


def outcome(messages: list[Message]) -> ResultMessage:
    last = messages[-1]
    assert isinstance(last, ResultMessage)
    return last


async def bounded(work: Awaitable[Kind]) -> Kind:
    async with asyncio.timeout(DEADLINE):
        return await work


@asynccontextmanager
async def connected(options: ClaudeAgentOptions) -> AsyncIterator[ClaudeSDKClient]:
    """A client; type checkers believe that the SDK's own context may swallow errors."""
    async with ClaudeSDKClient(options) as client:
        yield client


async def ask_once(prompt: str, options: ClaudeAgentOptions) -> list[Message]:
    async def gather() -> list[Message]:
        return [message async for message in query(prompt=prompt, options=options)]

    return await bounded(gather())


async def take_turn(client: ClaudeSDKClient, prompt: str) -> list[Message]:
    async def gather() -> list[Message]:
        await client.query(prompt)
        return [message async for message in client.receive_response()]

    return await bounded(gather())


async def test_a_query_gives_typed_messages_and_a_result(port: OpenPort, choose: Choose) -> None:
    place = await port(reply(thinking("A greeting is due."), "Good morning."))
    messages = await ask_once("Say hello.", choose(place))
    (init,) = [one for one in of(SystemMessage, messages) if one.subtype == "init"]
    assert init.data["cwd"] == str(place.cwd)
    assert blocks(ThinkingBlock, messages)[0].thinking == "A greeting is due."
    assert texts(messages) == ["Good morning."]
    result = outcome(messages)
    assert (result.subtype, result.is_error) == ("success", False)
    assert (result.result, result.num_turns) == ("Good morning.", 1)
    assert result.session_id == init.data["session_id"]
    assert result.usage is not None
    assert result.usage["input_tokens"] == 100
    assert "Say hello." in place.talks()[0]


async def test_deltas_come_when_they_are_asked_for(port: OpenPort, choose: Choose) -> None:
    place = await port(reply("Good morning."))
    messages = await ask_once("Hi.", choose(place, include_partial_messages=True))
    events = [one.event for one in of(StreamEvent, messages)]
    assert events[0]["type"] == "message_start"
    assert events[-1]["type"] == "message_stop"
    deltas = [event["delta"]["text"] for event in events if "text" in event.get("delta", {})]
    assert "".join(deltas) == "Good morning."


async def test_an_error_of_the_api_is_an_error_result(port: OpenPort, choose: Choose) -> None:
    # The CLI tries a few more times before it believes a 400.
    place = await port(*[ApiError(status=400, message="messages: too odd")] * 8)
    async with connected(choose(place)) as client:
        messages = await take_turn(client, "Hi.")
    assert outcome(messages).is_error
    assert outcome(messages).api_error_status == 400
    assert of(AssistantMessage, messages)[-1].error == "unknown"


async def test_turns_of_a_client_are_one_conversation(port: OpenPort, choose: Choose) -> None:
    place = await port(reply("Noted."), reply("Seven."))
    async with connected(choose(place)) as client:
        first = await take_turn(client, "Remember seven.")
        second = await take_turn(client, "Which number?")
    assert (texts(first), texts(second)) == (["Noted."], ["Seven."])
    assert outcome(first).session_id == outcome(second).session_id
    assert "Remember seven." in place.talks()[1]
    assert "Noted." in place.talks()[1]


async def test_an_allowed_command_runs_as_the_callback_changed_it(
    port: OpenPort, choose: Choose
) -> None:
    place = await port(reply("Making it.", call("Bash", command="touch made")), reply("Made."))

    def elsewhere(given: dict[str, Any]) -> PermissionResultAllow:
        return PermissionResultAllow(updated_input={**given, "command": "touch other"})

    asked = Asked(elsewhere)
    async with connected(choose(place, can_use_tool=asked)) as client:
        messages = await take_turn(client, "Make a file.")
    ((name, given, context),) = asked.questions
    assert (name, given["command"]) == ("Bash", "touch made")
    assert context.tool_use_id == blocks(ToolUseBlock, messages)[0].id
    assert context.suggestions
    assert not blocks(ToolResultBlock, messages)[0].is_error
    assert not (place.cwd / "made").exists()
    assert (place.cwd / "other").exists()


async def test_a_denied_command_does_not_run(port: OpenPort, choose: Choose) -> None:
    place = await port(reply(call("Bash", command="touch made")), reply("I see."))
    asked = Asked(PermissionResultDeny(message="Not on my watch."))
    async with connected(choose(place, can_use_tool=asked)) as client:
        messages = await take_turn(client, "Make a file.")
    (refusal,) = blocks(ToolResultBlock, messages)
    assert refusal.is_error
    assert "Not on my watch." in str(refusal.content)
    (denial,) = outcome(messages).permission_denials or []
    assert denial["tool_name"] == "Bash"
    assert not (place.cwd / "made").exists()


async def test_a_denial_may_end_the_turn(port: OpenPort, choose: Choose) -> None:
    place = await port(reply(call("Bash", command="touch made")), reply("Go on."))
    asked = Asked(PermissionResultDeny(message="Stop.", interrupt=True))
    async with connected(choose(place, can_use_tool=asked)) as client:
        messages = await take_turn(client, "Make a file.")
        after = await take_turn(client, "And now?")
    assert outcome(messages).subtype == "error_during_execution"
    assert texts(after) == ["Go on."]


async def test_a_suggested_rule_spares_the_next_question(port: OpenPort, choose: Choose) -> None:
    place = await port(
        reply(call("Bash", command="touch one")), reply(call("Bash", command="touch one")), reply()
    )
    asked: list[str] = []

    async def always(name: str, given: Any, context: ToolPermissionContext) -> Any:
        asked.append(name)
        return PermissionResultAllow(updated_permissions=context.suggestions)

    async with connected(choose(place, can_use_tool=always)) as client:
        messages = await take_turn(client, "Twice, please.")
    assert asked == ["Bash"]
    assert [one.is_error for one in blocks(ToolResultBlock, messages)] == [False, False]


async def test_hooks_are_called_and_obeyed(port: OpenPort, choose: Choose) -> None:
    place = await port(
        reply(call("Bash", command="touch bad")), reply(call("Bash", command="touch good")), reply()
    )
    seen: list[tuple[str, Any]] = []

    async def before(given: Any, tool_use_id: str | None, context: Any) -> Any:
        command = given["tool_input"]["command"]
        seen.append((given["hook_event_name"], command))
        decision = "allow" if command == "touch good" else "deny"
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": decision,
                "permissionDecisionReason": "The harbour master says so.",
            }
        }

    async def after(given: Any, tool_use_id: str | None, context: Any) -> Any:
        seen.append((given["hook_event_name"], tool_use_id == given["tool_use_id"]))
        added = {"hookEventName": "PostToolUse", "additionalContext": "The tide is high."}
        return {"hookSpecificOutput": added}

    async def on_prompt(given: Any, tool_use_id: str | None, context: Any) -> Any:
        seen.append((given["hook_event_name"], given["prompt"]))
        return {}

    async def on_stop(given: Any, tool_use_id: str | None, context: Any) -> Any:
        seen.append((given["hook_event_name"], given["cwd"]))
        return {}

    hooks = {
        "PreToolUse": [HookMatcher(matcher="Bash", hooks=[before])],
        "PostToolUse": [HookMatcher(matcher="Bash", hooks=[after])],
        "UserPromptSubmit": [HookMatcher(hooks=[on_prompt])],
        "Stop": [HookMatcher(hooks=[on_stop])],
    }
    async with connected(choose(place, hooks=hooks)) as client:
        messages = await take_turn(client, "Make files.")
    assert seen == [
        ("UserPromptSubmit", "Make files."),
        ("PreToolUse", "touch bad"),
        ("PreToolUse", "touch good"),
        ("PostToolUse", True),
        ("Stop", str(place.cwd)),
    ]
    assert [one.is_error for one in blocks(ToolResultBlock, messages)] == [True, False]
    assert "The harbour master says so." in place.talks()[1]
    assert "The tide is high." in place.talks()[2]
    assert [one.name for one in place.cwd.iterdir()] == ["good"]


async def test_a_tool_in_this_process_is_called(port: OpenPort, choose: Choose) -> None:
    place = await port(reply(call("mcp__ship__add", a=3, b=4)), reply("Seven."))
    calls: list[dict[str, Any]] = []

    @tool("add", "Adds two numbers.", {"a": int, "b": int})
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        calls.append(given)
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    options = choose(
        place,
        mcp_servers={"ship": create_sdk_mcp_server("ship", tools=[add])},
        allowed_tools=["mcp__ship__add"],
    )
    async with connected(options) as client:
        messages = await take_turn(client, "Add them.")
        status = await bounded(client.get_mcp_status())
    assert calls == [{"a": 3, "b": 4}]
    (sum_,) = blocks(ToolResultBlock, messages)
    assert sum_.content == [{"type": "text", "text": "7"}]
    (server,) = status["mcpServers"]
    assert (server["name"], server["status"]) == ("ship", "connected")
    offered = [entry["name"] for entry in place.requests()[0]["tools"]]
    assert "mcp__ship__add" in offered


async def test_an_interrupt_ends_the_turn_and_the_next_one_works(
    port: OpenPort, choose: Choose
) -> None:
    place = await port(reply("Once upon", gate("never"), " a time."), reply("Here I am."))
    options = choose(place, include_partial_messages=True)
    messages: list[Message] = []
    async with asyncio.timeout(DEADLINE), connected(options) as client:
        await client.query("Tell a story.")
        async for message in client.receive_response():
            messages.append(message)
            if isinstance(message, StreamEvent) and "text" in message.event.get("delta", {}):
                await client.interrupt()
        after = await take_turn(client, "Are you there?")
    assert outcome(messages).subtype == "error_during_execution"
    assert any("[Request interrupted by user]" in text for text in texts(messages))
    assert texts(after) == ["Here I am."]


async def test_the_model_can_be_changed_between_turns(port: OpenPort, choose: Choose) -> None:
    place = await port(reply("One."), reply("Two."))
    async with connected(choose(place, model="claude-sonnet-4-5")) as client:
        first = await take_turn(client, "Hi.")
        await bounded(client.set_model("claude-opus-4-5"))
        second = await take_turn(client, "And now?")
    models = [one.model for one in of(AssistantMessage, first + second)]
    assert models == ["claude-sonnet-4-5", "claude-opus-4-5"]
    assert [body["model"] for body in place.requests()] == models


async def test_the_mode_can_be_changed_between_turns(
    port: OpenPort, choose: Choose, tmp_path: Path
) -> None:
    target = tmp_path / "dev" / "project" / "log.txt"
    write = call("Write", file_path=str(target), content="ahoy\n")
    place = await port(reply(write), reply("No."), reply(write), reply("Yes."))
    asked = Asked(PermissionResultDeny(message="No."))
    async with connected(choose(place, can_use_tool=asked)) as client:
        await take_turn(client, "Write it.")
        assert not target.exists()
        await bounded(client.set_permission_mode("acceptEdits"))
        second = await take_turn(client, "Write it.")
    assert asked.names == ["Write"]
    assert target.read_text() == "ahoy\n"
    (init,) = [one for one in of(SystemMessage, second) if one.subtype == "init"]
    assert init.data["permissionMode"] == "acceptEdits"


async def test_a_question_to_the_user_is_answered(port: OpenPort, choose: Choose) -> None:
    place = await port(reply(call("AskUserQuestion", questions=[COLOUR])), reply("Blue it is."))

    def blue(given: dict[str, Any]) -> PermissionResultAllow:
        return PermissionResultAllow(updated_input={**given, "answers": {"Which colour?": "Blue"}})

    asked = Asked(blue)
    async with connected(choose(place, can_use_tool=asked)) as client:
        messages = await take_turn(client, "Paint it.")
    ((name, given, _),) = asked.questions
    assert name == "AskUserQuestion"
    assert given["questions"] == [COLOUR]
    (answer,) = blocks(ToolResultBlock, messages)
    assert "Blue" in str(answer.content)
    assert not answer.is_error
    assert texts(messages) == ["Blue it is."]


async def test_an_approved_plan_ends_plan_mode(
    port: OpenPort, choose: Choose, tmp_path: Path
) -> None:
    leap = tmp_path / "dev" / "project" / "leap.txt"
    place = await port(
        reply(call("Write", file_path="{{plan_file}}", content="# Plan\n\nLeap.\n")),
        reply(call("ExitPlanMode")),
        reply(call("Write", file_path=str(leap), content="leapt\n")),
        reply("Leapt."),
    )
    asked = Asked(lambda given: PermissionResultAllow(updated_input=given))
    options = choose(place, can_use_tool=asked, permission_mode="plan")
    async with connected(options) as client:
        messages = await take_turn(client, "Plan it.")
    assert asked.names == ["ExitPlanMode", "Write"]
    assert asked.questions[0][1]["plan"] == "# Plan\n\nLeap.\n"
    assert "approved your plan" in str(blocks(ToolResultBlock, messages)[1].content)
    assert leap.read_text() == "leapt\n"


async def test_a_refused_plan_keeps_plan_mode(port: OpenPort, choose: Choose) -> None:
    place = await port(
        reply(call("Write", file_path="{{plan_file}}", content="# Plan\n")),
        reply(call("ExitPlanMode")),
        reply("I think again."),
        reply("Still planning."),
    )
    asked = Asked(PermissionResultDeny(message="Think again."))
    options = choose(place, can_use_tool=asked, permission_mode="plan")
    async with connected(options) as client:
        messages = await take_turn(client, "Plan it.")
        after = await take_turn(client, "And?")
    assert asked.names == ["ExitPlanMode"]
    assert "Think again." in str(blocks(ToolResultBlock, messages)[1].content)
    (init,) = [one for one in of(SystemMessage, after) if one.subtype == "init"]
    assert init.data["permissionMode"] == "plan"


async def test_a_session_is_resumed_by_its_id(port: OpenPort, choose: Choose) -> None:
    place = await port(reply("Noted."), reply("Seven."))
    first = await ask_once("Remember seven.", choose(place))
    own = outcome(first).session_id
    second = await ask_once("Which number?", choose(place, resume=own))
    assert outcome(second).session_id == own
    assert texts(second) == ["Seven."]
    assert "Remember seven." in place.talks()[1]
    assert "Noted." in place.talks()[1]


async def test_the_last_session_is_continued(port: OpenPort, choose: Choose) -> None:
    place = await port(reply("Noted."), reply("Seven."))
    first = await ask_once("Remember seven.", choose(place))
    second = await ask_once("Which number?", choose(place, continue_conversation=True))
    assert outcome(second).session_id == outcome(first).session_id
    assert "Remember seven." in place.talks()[1]


async def test_a_fork_knows_the_past_and_has_its_own_id(port: OpenPort, choose: Choose) -> None:
    place = await port(reply("Noted."), reply("Seven."))
    own = outcome(await ask_once("Remember seven.", choose(place))).session_id
    second = await ask_once("Which number?", choose(place, resume=own, fork_session=True))
    assert outcome(second).session_id != own
    assert "Remember seven." in place.talks()[1]


async def test_the_sdk_reads_the_sessions_on_disk(port: OpenPort, choose: Choose) -> None:
    place = await port(reply("Noted."))
    own = outcome(await ask_once("Remember seven.", choose(place))).session_id
    (session,) = list_sessions(directory=str(place.cwd))
    assert (session.session_id, session.first_prompt) == (own, "Remember seven.")
    stored = get_session_messages(own, directory=str(place.cwd))
    assert [one.type for one in stored] == ["user", "assistant"]


async def test_files_are_rewound_to_a_prompt(
    port: OpenPort, choose: Choose, tmp_path: Path
) -> None:
    target = tmp_path / "dev" / "project" / "log.txt"
    place = await port(
        reply(call("Write", file_path=str(target), content="ahoy\n")), reply("Written.")
    )
    options = choose(
        place,
        permission_mode="acceptEdits",
        enable_file_checkpointing=True,
        extra_args={"replay-user-messages": None},
    )
    async with connected(options) as client:
        messages = await take_turn(client, "Write it.")
        prompts = [one for one in of(UserMessage, messages) if one.tool_use_result is None]
        assert target.exists()
        assert prompts[0].uuid is not None
        await bounded(client.rewind_files(prompts[0].uuid))
    assert not target.exists()


async def test_structured_output_is_given(port: OpenPort, choose: Choose) -> None:
    place = await port(reply(call("StructuredOutput", depth=7)), reply("Measured."))
    schema = {"type": "object", "properties": {"depth": {"type": "number"}}, "required": ["depth"]}
    wanted = {"type": "json_schema", "schema": schema}
    messages = await ask_once("How deep?", choose(place, output_format=wanted))
    assert outcome(messages).structured_output == {"depth": 7}


async def test_what_the_cli_can_do_is_told(port: OpenPort, choose: Choose) -> None:
    place = await port(reply("Hi."))
    async with connected(choose(place)) as client:
        info = await bounded(client.get_server_info())
        await take_turn(client, "Hi.")
        usage = await bounded(client.get_context_usage())
    assert info is not None
    assert {"compact", "context"} <= {command["name"] for command in info["commands"]}
    assert info["models"]
    assert usage["maxTokens"] > 0


async def test_turns_are_counted(port: OpenPort, choose: Choose) -> None:
    place = await port(
        reply(call("Bash", command="echo one")), reply(call("Bash", command="echo two")), reply()
    )
    async with connected(choose(place, max_turns=1)) as client:
        messages = await take_turn(client, "Count.")
    assert outcome(messages).subtype == "error_max_turns"
