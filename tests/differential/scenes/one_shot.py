"""One prompt as an argument, other formats, and flags that are wrong."""

from __future__ import annotations

from typing import Any

from pilothouse.testing.scenario import ApiError, reply
from tests.differential.driver import Cli, Scene
from tests.differential.host import bash, script

HELLO = script(reply("Looking.", bash("ls")), reply("Hello."))


async def no_input(cli: Cli) -> None:
    """Closes stdin and waits for the end."""
    cli.close_stdin()
    await cli.exited()


async def piped(cli: Cli) -> None:
    """Gives the prompt as text on stdin."""
    cli.send_raw("Say hello.\n")
    cli.close_stdin()
    await cli.exited()


def shot(*flags: str, play: Any = no_input, **more: Any) -> Scene:
    """A scene started with these flags and no others."""
    return Scene(more.pop("scenario", HELLO), play, base=flags, stderr=True, **more)


SCENES = {
    "one_shot_text": shot("-p", "Say hello."),
    "one_shot_json": shot("-p", "Say hello.", "--output-format=json"),
    "one_shot_json_verbose": shot("-p", "Say hello.", "--output-format=json", "--verbose"),
    "one_shot_stream": shot("-p", "Say hello.", "--output-format=stream-json", "--verbose"),
    "one_shot_piped": shot("-p", "--output-format=json", play=piped),
    "one_shot_error": shot(
        "-p",
        "Say hello.",
        scenario=script(ApiError(status=403, message="no")),
        covers="E1",
    ),
    "one_shot_without_prompt": shot("-p"),
    "stream_without_verbose": shot("-p", "x", "--output-format=stream-json", covers="A6"),
    "stream_input_alone": shot("-p", "--input-format=stream-json"),
    "version": shot("--version"),
    "unknown_flag": shot("-p", "--no-such-flag"),
    "unknown_format": shot("-p", "x", "--output-format=yaml"),
    "bad_mode": shot("-p", "x", "--permission-mode=bogus"),
    "bad_max_turns": shot("-p", "x", "--max-turns=none"),
    "bad_settings": shot("-p", "x", "--settings={nonsense"),
    "bad_mcp_config": shot("-p", "x", "--mcp-config={nonsense"),
}
