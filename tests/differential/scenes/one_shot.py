"""One prompt as an argument, other formats, and flags that are wrong."""

from __future__ import annotations

from typing import Any

from pilothouse_sim.scenario import ApiError, Branch, When, reply
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


async def piped_too(cli: Cli) -> None:
    """Gives more on stdin than the prompt of the command line."""
    cli.send_raw("\n  More words. \n\n")
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
    "one_shot_blank_prompt": shot("-p", "  "),
    "one_shot_without_flag": shot("Say hello."),
    "one_shot_max_turns": shot("-p", "Say hello.", "--max-turns=1"),
    "one_shot_max_turns_json": shot("-p", "x", "--max-turns=1", "--output-format=json"),
    "one_shot_max_budget": shot("-p", "Say hello.", "--max-budget-usd=0.0001"),
    "one_shot_denied": shot(
        "-p", "x", scenario=script(reply(bash("touch a")), reply("No.")), files=True
    ),
    "one_shot_prompt_and_pipe": shot(
        "-p",
        "Say hello.",
        play=piped_too,
        scenario=script(
            reply("Other words."),
            branches=[
                Branch(
                    when=When(last_contains="Say hello.\n\n  More words. \n\n"),
                    replies=(reply("Both."),),
                )
            ],
        ),
    ),
    "one_shot_manual": shot(
        "-p", "x", "--output-format=stream-json", "--verbose", "--permission-mode=manual"
    ),
    "stream_without_verbose": shot("-p", "x", "--output-format=stream-json", covers="A6"),
    "stream_input_alone": shot("-p", "--input-format=stream-json"),
    "version": shot("--version"),
    "unknown_flag": shot("-p", "--no-such-flag"),
    "unknown_format": shot("-p", "x", "--output-format=yaml"),
    "bad_mode": shot("-p", "x", "--permission-mode=bogus"),
    "bad_max_turns": shot("-p", "x", "--max-turns=none"),
    "some_max_turns": shot("-p", "x", "--max-turns=2.5"),
    "no_max_turns": shot("-p", "x", "--max-turns=0"),
    "missing_max_turns": shot("-p", "x", "--max-turns"),
    "bad_budget": shot("-p", "x", "--max-budget-usd=0"),
    "bad_input_format": shot("-p", "x", "--input-format=yaml"),
    "bad_thinking": shot("-p", "x", "--thinking=bogus"),
    "bad_session_id": shot("-p", "x", "--session-id=bogus"),
    "bad_sources": shot("-p", "x", "--setting-sources=user,bogus"),
    "bad_switch": shot("-p", "x", "--verbose=3"),
    "bad_prompt_file": shot("-p", "x", "--system-prompt-file=nowhere"),
    "bad_appended_file": shot("-p", "x", "--append-system-prompt-file=/nowhere"),
    "bad_servers": shot("-p", "x", '--mcp-config={"x": 1}'),
    "replay_alone": shot("-p", "x", "--replay-user-messages"),
    "partial_alone": shot("-p", "x", "--include-partial-messages"),
    "resume_without_id": shot("-p", "x", "--resume"),
    "resume_unknown_title": shot("-p", "x", "--resume=zz"),
    "resume_at_alone": shot("-p", "x", "--resume-session-at=zz"),
    "bad_settings": shot("-p", "x", "--settings={nonsense"),
    "bad_mcp_config": shot("-p", "x", "--mcp-config={nonsense"),
}
