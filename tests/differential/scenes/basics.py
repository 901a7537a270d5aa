"""Turns, the model's words, and how prompts and turns meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse_sim.scenario import Raw, gate, reply, text, thinking, tool
from tests.differential.driver import Cli, Scene, own_uuid
from tests.differential.host import (
    PARTIAL,
    REPLAY,
    UNTIL_GO,
    allow,
    bash,
    initialized,
    script,
    turns,
)
from tests.support.raw_cli import ARGUMENTS, Message


def says(words: str) -> Callable[[Message], bool]:
    """Whether a line brings these words of the model's."""
    return lambda line: line.get("event", {}).get("delta", {}).get("text") == words


async def folded_prompt(cli: Cli) -> None:
    """Sends a prompt while a tool runs, and another while text streams."""
    cli.prompt("Run it.")
    await cli.exists("started")
    cli.prompt("And hurry.")
    await cli.control("set_max_thinking_tokens", max_thinking_tokens=None)
    (cli.cwd / "go").touch()
    await cli.until(says("As "))
    cli.prompt("One more thing.")
    await cli.control("set_max_thinking_tokens", max_thinking_tokens=None)
    cli.release("talk")
    await cli.result()
    await cli.settle()


async def queued_prompts(cli: Cli) -> None:
    """Sends two prompts while text streams; they become one turn."""
    cli.prompt("Talk.")
    await cli.reached("talk")
    cli.prompt("First.")
    cli.prompt("Second.")
    await cli.control("set_max_thinking_tokens", max_thinking_tokens=None)
    cli.release("talk")
    await cli.result()
    await cli.settle()


async def cancelled_prompt(cli: Cli) -> None:
    """Queues two prompts while text streams and takes one back."""
    cli.prompt("Talk.")
    await cli.reached("talk")
    taken_back = cli.prompt("First.")
    cli.prompt("Second.")
    await cli.control("cancel_async_message", message_uuid=taken_back)
    await cli.control("cancel_async_message", message_uuid=own_uuid(99))
    cli.release("talk")
    await cli.result()
    await cli.settle()


async def prompts_at_once(cli: Cli) -> None:
    """Writes two prompts in one go to a CLI that is idle."""
    with cli.in_one_write():
        cli.prompt("First.")
        cli.prompt("Second.")
    await cli.result()
    await cli.settle()


async def repeated_uuid(cli: Cli) -> None:
    """Sends a prompt whose uuid was sent before."""
    cli.prompt("Hello.", own_uuid(1))
    await cli.settle()
    cli.prompt("Hello.", own_uuid(1))
    await cli.idle()
    cli.prompt("Goodbye.", own_uuid(2))
    await cli.settle()


async def unwatched(cli: Cli) -> None:
    """Plays a prompt without hearing of idleness."""
    await cli.control("initialize")
    cli.prompt("Say hello.")
    await cli.result()


async def no_uuid(cli: Cli) -> None:
    """Sends a prompt as briefly as it may be."""
    cli.send({"type": "user", "message": {"role": "user", "content": "Hello."}})
    await cli.settle()


async def not_a_question(cli: Cli) -> None:
    """Sends a prompt that the model shall only note."""
    cli.prompt("It rains.", shouldQuery=False)
    await cli.settle()
    await turns("How is the weather?")(cli)


def raw(kind: str, index: int | None = None, **members: Any) -> Raw:
    """One event of the model's stream."""
    numbered = {} if index is None else {"index": index}
    return Raw({"type": kind, **numbered, **members})


SEARCHED = (
    raw(
        "content_block_start",
        0,
        content_block={
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {},
        },
    ),
    raw(
        "content_block_delta",
        0,
        delta={"type": "input_json_delta", "partial_json": '{"query":"tides"}'},
    ),
    raw("content_block_stop", 0),
    raw(
        "content_block_start",
        1,
        content_block={
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {
                    "type": "web_search_result",
                    "title": "Tides",
                    "url": "https://tides.test/",
                    "encrypted_content": "eA==",
                    "page_age": None,
                }
            ],
        },
    ),
    raw("content_block_stop", 1),
    raw("content_block_start", 2, content_block={"type": "text", "text": "", "citations": []}),
    raw("content_block_delta", 2, delta={"type": "text_delta", "text": "High at noon."}),
    raw(
        "content_block_delta",
        2,
        delta={
            "type": "citations_delta",
            "citation": {
                "type": "web_search_result_location",
                "cited_text": "noon",
                "url": "https://tides.test/",
                "title": "Tides",
                "encrypted_index": "eA==",
            },
        },
    ),
    raw("content_block_stop", 2),
)

SCENES = {
    "server_tool": Scene(script(reply(*SEARCHED), reply("Aye.")), turns("Tides?", "Sure?")),
    "server_tool_partial": Scene(script(reply(*SEARCHED)), turns("Tides?"), (PARTIAL,)),
    "plain_turn": Scene(
        script(reply(thinking("A greeting is due.", chunk=8), text("Hello there.", chunk=5))),
        initialized("Say hello.", hooks=None),
        (PARTIAL,),
        covers="A2 A6 A8 A10 A14 H1",
    ),
    "plain_text": Scene(script(reply("Hello.")), turns("Say hello."), covers="A2 A6 A14"),
    "no_session_state": Scene(
        script(reply("Hello.")),
        unwatched,
        env={"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "", "ENABLE_TOOL_SEARCH": ""},
        covers="A14 H14",
    ),
    "two_turns": Scene(
        script(reply("One."), reply("Two.")), turns("First.", "Second."), covers="A4 A11"
    ),
    "many_blocks": Scene(
        script(
            # Writes run one after the other; what only reads would run at once, in any order.
            reply(
                thinking("Two files."),
                "Writing.",
                tool("Write", file_path="{{cwd}}/a.txt", content="a\n"),
                tool("Write", file_path="{{cwd}}/b.txt", content="b\n"),
            ),
            reply(thinking("Now what?"), "Written."),
        ),
        turns("Write two files."),
        (PARTIAL, "--permission-mode=acceptEdits"),
        covers="A10",
    ),
    "block_prompt": Scene(
        script(reply("Seen.")),
        turns([{"type": "text", "text": "Two"}, {"type": "text", "text": "texts."}]),
        (REPLAY,),
        covers="A9 A15",
    ),
    "no_uuid": Scene(script(reply("Hello.")), no_uuid, (REPLAY,), covers="A9 A15"),
    "folded_prompt": Scene(
        script(reply(bash(UNTIL_GO)), reply("As ", gate("talk"), "asked."), reply("Yes?")),
        folded_prompt,
        (REPLAY, PARTIAL),
        {"can_use_tool": allow},
        covers="A9 A13 A20",
    ),
    "queued_prompts": Scene(
        script(reply("As ", gate("talk"), "asked."), reply("Yes."), reply("Yes, yes.")),
        queued_prompts,
        (REPLAY,),
        covers="A13",
    ),
    "cancelled_prompt": Scene(
        script(reply("As ", gate("talk"), "asked."), reply("Yes.")), cancelled_prompt, (REPLAY,)
    ),
    "prompts_at_once": Scene(
        script(reply("One."), reply("Two.")), prompts_at_once, (REPLAY,), covers="A22"
    ),
    "repeated_uuid": Scene(
        script(reply("Hello."), reply("Goodbye.")), repeated_uuid, (REPLAY,), covers="A26 G9"
    ),
    "not_a_question": Scene(script(reply("It rains.")), not_a_question, (REPLAY,), covers="A25"),
    "system_prompt": Scene(
        script(reply("Aye.")),
        turns("Hello."),
        ("--system-prompt=You are a pilot.", "--append-system-prompt=Be brief."),
    ),
    "prompt_as_argument": Scene(
        script(reply("Hello.")), turns("Say hello."), ("Say goodbye.",), covers="A3"
    ),
    "without_print": Scene(
        script(reply("Hello.")), turns("Say hello."), base=ARGUMENTS[1:], covers="A7"
    ),
    "unknown_entrypoint": Scene(
        script(reply("Hello.")),
        initialized("Say hello."),
        env={"CLAUDE_CODE_ENTRYPOINT": "harbour"},
        covers="A27",
    ),
    "model_flag": Scene(script(reply("Hello.")), turns("Hello."), ("--model=claude-haiku-4-5",)),
}
