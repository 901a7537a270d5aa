"""What stdin stands, how it ends, and signals."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

from pilothouse_sim.scenario import gate, reply
from tests.differential.driver import Cli, Scene
from tests.differential.host import (
    PARTIAL,
    REPLAY,
    UNTIL_GO,
    allow,
    bash,
    has_text,
    is_ask,
    script,
    turns,
)

HELLO = script(reply("Hello."), reply("Hello again."))
STORY = script(reply("Once upon ", gate("never"), "a time"), reply("The end."))


def line(words: str) -> Callable[[Cli], Awaitable[None]]:
    """Writes a line that ends the CLI."""

    async def play(cli: Cli) -> None:
        cli.send_raw(words + "\n")
        await cli.exited()

    return play


async def harmless(cli: Cli) -> None:
    """Writes lines that the CLI passes over, then a prompt in an unusual dress."""
    for words in ("", "   ", '{"type": "no_such_type"}', "[]", "7", '{"type": "keep_alive"}'):
        cli.send_raw(words + "\n")
    cli.send({"type": "control_cancel_request", "request_id": "nobody"})
    await cli.control("initialize")
    cli.send_raw('{"type": "user", "message": {"role": "user", ')
    cli.send_raw('"content": "Hello."}}\r\n')
    await cli.settle()


async def odd_characters(cli: Cli) -> None:
    """Writes bytes that are no UTF-8 and half of a surrogate pair."""
    start = '{"type": "user", "message": {"role": "user", "content": "'
    cli.send_raw(start + 'half \\ud83d"}}\n')
    await cli.settle()
    cli.send_bytes(start.encode() + b'byte \xff"}}\n')
    await cli.settle()


async def odd_requests(cli: Cli) -> None:
    """Writes control requests that ask for nothing."""
    for number, body in enumerate(("7", "{}", '"initialize"')):
        cli.send_raw(f'{{"type":"control_request","request_id":"odd-{number}","request":{body}}}\n')
    await turns("Hello.")(cli)


async def new_environment(cli: Cli) -> None:
    """Sets a variable that the CLI has no use for."""
    cli.send({"type": "update_environment_variables", "variables": {"FRESH": "water"}})
    await turns("Look.")(cli)


async def no_content(cli: Cli) -> None:
    """Says nothing, twice."""
    for words in ('{"role": "user"}', '{"role": "user", "content": null}'):
        cli.send_raw(f'{{"type": "user", "message": {words}}}\n')
        await cli.settle()


async def closed_at_once(cli: Cli) -> None:
    """Has nothing to say."""
    cli.close_stdin()
    await cli.exited()


async def closed_in_text(cli: Cli) -> None:
    """Ends the input in the middle of the model's words."""
    cli.prompt("Tell me.")
    await cli.until(has_text)
    cli.close_stdin()
    cli.release("never")
    await cli.exited()


async def closed_in_tool(cli: Cli) -> None:
    """Ends the input while a tool runs."""
    cli.prompt("Run it.")
    await cli.exists("started")
    cli.close_stdin()
    (cli.cwd / "go").touch()
    await cli.exited()


async def closed_while_asking(cli: Cli) -> None:
    """Ends the input instead of answering."""
    cli.prompt("Make a file.")
    await cli.until(is_ask)
    cli.close_stdin()
    await cli.exited()


async def prompt_without_newline(cli: Cli) -> None:
    """Ends the input without ending the line."""
    cli.send_raw('{"type": "user", "message": {"role": "user", "content": "Hello."}}')
    cli.close_stdin()
    await cli.exited()


def signalled(number: signal.Signals) -> Callable[[Cli], Awaitable[None]]:
    """Sends a signal in the middle of the model's words."""

    async def play(cli: Cli) -> None:
        cli.prompt("Tell me.")
        await cli.until(has_text)
        cli.process.send_signal(number)
        await cli.exited()

    return play


def signalled_idle(number: signal.Signals) -> Callable[[Cli], Awaitable[None]]:
    """Sends a signal after a turn."""

    async def play(cli: Cli) -> None:
        await turns("Hello.")(cli)
        cli.process.send_signal(number)
        await cli.exited()

    return play


SCENES = {
    "stdin_harmless": Scene(HELLO, harmless, covers="G2 G3 G4 G6 G7 B15"),
    "stdin_odd_characters": Scene(HELLO, odd_characters, (REPLAY,), covers="A29 G5"),
    "stdin_malformed": Scene(HELLO, line('{"type": "user'), stderr=True, covers="G1"),
    "stdin_null": Scene(HELLO, line("null"), stderr=True, covers="G1"),
    "stdin_user_without_message": Scene(HELLO, line('{"type": "user"}'), stderr=True, covers="G1"),
    "stdin_other_role": Scene(
        HELLO,
        line('{"type": "user", "message": {"role": "assistant", "content": "x"}}'),
        stderr=True,
        covers="G1",
    ),
    "stdin_null_role": Scene(
        HELLO, line('{"type": "user", "message": {"role": null}}'), stderr=True, covers="G1"
    ),
    "stdin_malformed_user": Scene(
        HELLO, line('{"type":"user","x":"é😀"'), stderr=True, covers="G1"
    ),
    "stdin_odd_request": Scene(HELLO, odd_requests, covers="C14"),
    "stdin_environment": Scene(
        script(reply(bash('echo "[$FRESH]"')), reply("Told.")),
        new_environment,
        answers={"can_use_tool": allow},
        covers="G7",
    ),
    "stdin_no_content": Scene(HELLO, no_content, (REPLAY,), covers="G3"),
    "stdin_empty_request": Scene(
        HELLO, line('{"type": "control_request", "request_id": "x"}'), stderr=True, covers="C14"
    ),
    "stdin_closed_at_once": Scene(HELLO, closed_at_once, covers="D8"),
    "stdin_closed_in_text": Scene(STORY, closed_in_text, (PARTIAL,), covers="D6"),
    "stdin_closed_in_tool": Scene(
        script(reply(bash(UNTIL_GO)), reply("Over.")),
        closed_in_tool,
        answers={"can_use_tool": allow},
        covers="D6",
    ),
    "stdin_closed_while_asking": Scene(
        script(reply(bash("touch made")), reply("Over.")), closed_while_asking, covers="D7"
    ),
    "stdin_without_newline": Scene(HELLO, prompt_without_newline, covers="G6"),
    "sigint_in_text": Scene(STORY, signalled(signal.SIGINT), (PARTIAL,), covers="D4"),
    "sigterm_in_text": Scene(STORY, signalled(signal.SIGTERM), (PARTIAL,), covers="D5"),
    "sighup_in_text": Scene(STORY, signalled(signal.SIGHUP), (PARTIAL,), covers="D5"),
    "sigint_idle": Scene(HELLO, signalled_idle(signal.SIGINT), covers="D4"),
    "sigterm_idle": Scene(HELLO, signalled_idle(signal.SIGTERM), covers="D5"),
}
