"""Sessions that go on: resumed, forked, continued, compacted, cleared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pilothouse_sim.scenario import Scenario, Usage, reply, tool
from tests.differential.driver import Cli, Performance, Scene, own_uuid
from tests.differential.host import PARTIAL, REPLAY, allow, bash, initialized, put, script, turns

FIRST, SECOND, NOBODY = own_uuid(70), own_uuid(71), own_uuid(72)
TALK = script(reply("Aye."), reply("Still aye."), reply("Aye again."))


def two_parts(scenario: Scenario, *flags: str, **more: Any) -> Scene:
    """A scene of a session and of what comes after it, started with other flags."""

    async def perform(house: Performance) -> None:
        async with house.run(f"--session-id={FIRST}") as cli:
            await turns("Hello.")(cli)
        async with house.run(*flags) as cli:
            await turns("Still there?")(cli)

    return Scene(scenario, perform=perform, **more)


async def resume_at(house: Performance) -> None:
    """Resumes a session of two turns after the first of them."""
    async with house.run(f"--session-id={FIRST}") as cli:
        cli.prompt("Hello.")
        said = await cli.until(lambda line: line["type"] == "assistant")
        await cli.settle()
        await turns("Still there?")(cli)
    async with house.run(f"--resume={FIRST}", f"--resume-session-at={said['uuid']}") as cli:
        await turns("Where were we?")(cli)
    async with house.run(f"--resume={FIRST}", f"--resume-session-at={NOBODY}") as cli:
        await cli.exited()


async def resume_drops(house: Performance) -> None:
    """Resumes a session of three turns, and says in several ways which turn goes."""
    async with house.run(f"--session-id={FIRST}") as cli:
        said: list[str] = []
        for words in ("Hello.", "Still there?", "Still?"):
            cli.prompt(words)
            said.append((await cli.until(lambda line: line["type"] == "assistant"))["uuid"])
            await cli.settle()
    one, two = (
        (f"--resume={FIRST}", "--fork-session", f"--resume-session-at={own}") for own in said[:2]
    )
    for refused in (
        (*two, f"--resume-drops-turn={NOBODY}"),
        (*two, "--resume-drops-turn=nonsense"),
        (*one, f"--resume-drops-turn={own_uuid(2)}"),
        (f"--resume={FIRST}", f"--resume-drops-turn={own_uuid(2)}"),
        (f"--resume-drops-turn={own_uuid(2)}",),
    ):
        async with house.run(*refused) as cli:
            await cli.exited()
    async with house.run(*two, f"--resume-drops-turn={own_uuid(3)}") as cli:
        await turns("Where were we?")(cli)


async def id_in_use(house: Performance) -> None:
    """Starts a session under the id of another."""
    async with house.run(f"--session-id={FIRST}") as cli:
        await turns("Hello.")(cli)
    async with house.run(f"--session-id={FIRST}") as cli:
        await cli.exited()


async def ends_by_itself(cli: Cli) -> None:
    """Waits for the end; stdin stays open."""
    await cli.exited()


async def resume_repeats(house: Performance) -> None:
    """Resumes a session and sends the same prompt once more."""
    async with house.run(f"--session-id={FIRST}", REPLAY) as cli:
        cli.prompt("Hello.", own_uuid(1))
        await cli.settle()
    async with house.run(f"--resume={FIRST}", REPLAY) as cli:
        cli.prompt("Hello.", own_uuid(1))
        await cli.idle()
        cli.prompt("Still there?", own_uuid(2))
        await cli.settle()


async def interrupted_then_resumed(house: Performance) -> None:
    """Resumes a session whose last turn was cut off in the middle of a tool."""
    async with house.run(f"--session-id={FIRST}") as cli:
        await turns("Hello.")(cli)
        cli.prompt("Make a file.")
        await cli.until(lambda line: line["type"] == "control_request")
        cli.process.terminate()
        await cli.exited()
    async with house.run(f"--resume={FIRST}") as cli:
        await turns("Still there?")(cli)


async def resumed_by_path(house: Performance) -> None:
    """Resumes a session by the path of its transcript, and by one where there is none."""
    async with house.run(f"--session-id={FIRST}") as cli:
        await turns("Hello.")(cli)
    (path,) = (house.home / ".claude/projects").glob(f"*/{FIRST}.jsonl")
    async with house.run("--resume", str(path)) as cli:
        await turns("Still there?")(cli)
    async with house.run("--resume", str(path.with_stem(NOBODY))) as cli:
        await cli.exited()


async def resumed_by_title(house: Performance) -> None:
    """Resumes a session by its title, by one it had before, and by none."""
    async with house.run(f"--session-id={FIRST}") as cli:
        await turns("Hello.", "/rename Old name", "/rename New name")(cli)
    async with house.run("--resume=new name") as cli:
        await turns("Still there?")(cli)
    for name in ("Old name", ""):
        async with house.run(f"--resume={name}") as cli:
            await cli.exited()


async def resumed_elsewhere(house: Performance) -> None:
    """Resumes a session from another directory, then looks there for one to continue."""
    async with house.run(f"--session-id={FIRST}") as cli:
        await turns("Hello.")(cli)
    house.cwd = house.home / "elsewhere"
    house.cwd.mkdir()
    async with house.run(f"--resume={FIRST}") as cli:
        await turns("Still there?")(cli)
    async with house.run("--continue") as cli:
        cli.close_stdin()
        await cli.exited()


async def resumed_twice_at_once(house: Performance) -> None:
    """Two processes on one session."""
    async with house.run(f"--session-id={FIRST}") as cli:
        await turns("Hello.")(cli)
    async with house.run(f"--resume={FIRST}") as one:
        await turns("Are you one?")(one)
        async with house.run(f"--resume={FIRST}") as other:
            await turns("Are you two?")(other)


async def resumed_with_model(house: Performance) -> None:
    """Resumes a session of another model and mode, with nothing said of them, then with a model."""
    async with house.run(
        f"--session-id={FIRST}", "--model=sonnet", "--permission-mode=acceptEdits"
    ) as cli:
        await turns("Hello.")(cli)
    async with house.run(f"--resume={FIRST}") as cli:
        await turns("Still there?")(cli)
    async with house.run(f"--resume={FIRST}", "--model=haiku") as cli:
        await turns("Where were we?")(cli)


async def bad_flags(house: Performance) -> None:
    """Flags that do not go together."""
    for flags in (
        (f"--resume={FIRST}", f"--session-id={SECOND}"),
        (f"--resume-session-at={NOBODY}",),
        ("--continue", f"--session-id={SECOND}"),
    ):
        async with house.run(*flags) as cli:
            await cli.exited()


async def rewound(cli: Cli) -> None:
    """Changes files in three turns and goes back, first on trial."""
    await turns("Edit it.", "Write another.", "Edit both.")(cli)
    for number in (1, 2, 3, 9):
        await cli.control("rewind_files", user_message_id=own_uuid(number), dry_run=True)
    for number in (2, 1, 3, 9):
        await cli.control("rewind_files", user_message_id=own_uuid(number))
        await cli.control("rewind_files", user_message_id=own_uuid(3), dry_run=True)


async def rewound_later(house: Performance) -> None:
    """Goes back to a checkpoint of an earlier process."""
    flags = ("--permission-mode=acceptEdits",)
    async with house.run(f"--session-id={FIRST}", *flags) as cli:
        await turns("Write it.", "Change it.")(cli)
    async with house.run(f"--resume={FIRST}", *flags) as cli:
        await cli.control("rewind_files", user_message_id=own_uuid(2), dry_run=True)
        await turns("Still there?")(cli)
        await cli.control("rewind_files", user_message_id=own_uuid(2))
        await cli.control("rewind_files", user_message_id=own_uuid(1), dry_run=True)


def own_commands(cwd: Path) -> None:
    """Commands that a project brings along."""
    folder = cwd / ".claude/commands/sub"
    folder.mkdir(parents=True)
    words = "---\ndescription: Mine\nargument-hint: [a] [b]\n---\nDo $ARGUMENTS: first $1.\n"
    (folder.parent / "mine.md").write_text(words)
    (folder / "deep.md").write_text("Go deep.\n")


CHECKPOINTING = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}
NOTE = "{{cwd}}/note.txt"
OTHER = "{{cwd}}/other.txt"
EVENTS = ("PreCompact", "PostCompact", "SessionStart", "SessionEnd", "UserPromptSubmit")

SCENES = {
    "resume_path": Scene(TALK, perform=resumed_by_path, covers="F4"),
    "resume_title": Scene(TALK, perform=resumed_by_title, stderr=True, covers="F4"),
    "resume_elsewhere": Scene(TALK, perform=resumed_elsewhere, covers="F4"),
    "resume_at_once": Scene(
        script(reply("Aye."), reply("One.")),
        perform=resumed_twice_at_once,
        covers="F4",
    ),
    "resume_model": Scene(TALK, perform=resumed_with_model, covers="F4 E8"),
    "resume_bad_flags": Scene(TALK, perform=bad_flags, stderr=True, covers="F4"),
    "rewind": Scene(
        script(
            reply(tool("Read", file_path=NOTE)),
            reply(tool("Edit", file_path=NOTE, old_string="two", new_string="2\nmore")),
            reply("Edited."),
            reply(tool("Write", file_path=OTHER, content="fresh\nfile\n")),
            reply(bash("echo x > shell.txt")),
            reply("Written."),
            reply(tool("Edit", file_path=NOTE, old_string="one", new_string="1")),
            reply(tool("Edit", file_path=OTHER, old_string="fresh", new_string="stale")),
            reply("Both edited."),
        ),
        rewound,
        ("--permission-mode=acceptEdits",),
        {"can_use_tool": allow},
        CHECKPOINTING,
        put(note__txt="one\ntwo\nthree\n"),
        files=True,
        covers="C12",
    ),
    "rewind_resumed": Scene(
        script(
            reply(tool("Write", file_path=NOTE, content="one\n")),
            reply("Written."),
            reply(tool("Edit", file_path=NOTE, old_string="one", new_string="two")),
            reply("Changed."),
            reply("Aye."),
        ),
        perform=rewound_later,
        env=CHECKPOINTING,
        files=True,
        covers="C12",
    ),
    "compact_later": Scene(
        script(reply("One."), reply(bash("true"), "Two."), reply("Two."), reply("Three.")),
        turns("First.", "Second.", "/compact keep the names", "/compact", "Third.", "/compact"),
        covers="A19",
    ),
    "compact_with_all_hooks": Scene(
        TALK,
        initialized(
            "Hello.",
            "Still there?",
            "/compact keep the names",
            "/clear",
            "Who are you?",
            hooks={event: [{"hookCallbackIds": [event]}] for event in EVENTS},
        ),
        (PARTIAL, REPLAY),
        {"hook_callback": lambda _: {}},
        covers="A21 H6 H7",
    ),
    "compact_by_itself": Scene(
        script(
            reply("Full.", usage=Usage(input_tokens=990_000)), reply("Empty again."), reply("Yes.")
        ),
        turns("Fill it.", "And now?", "Still there?"),
        (REPLAY,),
        covers="A19",
    ),
    "compact_by_itself_later": Scene(
        script(
            reply("One."),
            reply("Full.", bash("true"), usage=Usage(input_tokens=970_000)),
            reply("Empty again."),
            reply("Full again.", usage=Usage(input_tokens=970_000)),
            reply("Yes."),
        ),
        turns("Hello.", "Fill it.", "And again.", "Still there?"),
        (REPLAY,),
    ),
    "compact_too_early": Scene(
        script(reply("Nearly full.", usage=Usage(input_tokens=968_000)), reply("Yes.")),
        turns("Fill it.", "Still there?"),
    ),
    "name_flag": Scene(TALK, turns("Hello."), ("--name=My name",)),
    "clear_twice": Scene(TALK, turns("/clear", "Hello.", "/new", "Who are you?"), covers="A21"),
    "slash_custom": Scene(
        TALK,
        turns("/mine one two", "/sub:deep", "/init"),
        (REPLAY,),
        prepare=own_commands,
        covers="A19",
    ),
    "slash_custom_with_hooks": Scene(
        TALK,
        initialized(
            "/mine one two",
            "/init",
            "/color red",
            hooks={
                event: [{"hookCallbackIds": [event]}]
                for event in ("UserPromptSubmit", "UserPromptExpansion")
            },
        ),
        (REPLAY,),
        {"hook_callback": lambda _: {}},
        prepare=own_commands,
    ),
    "slash_unavailable": Scene(TALK, turns("/help", "/permissions x", "Hello."), (REPLAY,)),
    "slash_settings": Scene(
        TALK,
        turns(
            *("/effort", "/effort high", "/effort auto", "/effort huge", "/color red", "/color x"),
            *(
                "/fast",
                "/focus",
                "/mcp",
                "/mcp x",
                "/output-style x",
                "/config x",
                "/autocompact x",
            ),
            *("/reload-plugins", "/reload-skills"),
        ),
        (REPLAY,),
    ),
    "slash_model": Scene(
        TALK, turns("/model", "/model sonnet", "Hello.", "/model default", "/model opusplan")
    ),
    "slash_rename": Scene(TALK, turns("/rename", "/rename My  name ", "Hello.", "/recap")),
    "session_id": Scene(
        script(reply("Hello.")), turns("Hello."), (f"--session-id={FIRST}",), covers="A5"
    ),
    "session_id_invalid": Scene(
        script(reply("Hello.")), ends_by_itself, ("--session-id=nonsense",), stderr=True
    ),
    "session_id_in_use": Scene(TALK, perform=id_in_use, stderr=True, covers="F4"),
    "resume": two_parts(TALK, f"--resume={FIRST}", covers="F4 E8"),
    "resume_fork": two_parts(TALK, f"--resume={FIRST}", "--fork-session", covers="F4"),
    "resume_fork_named": two_parts(
        TALK, f"--resume={FIRST}", "--fork-session", f"--session-id={SECOND}", covers="F4"
    ),
    "resume_continue": two_parts(TALK, "--continue", covers="F4"),
    "resume_at": Scene(TALK, perform=resume_at, stderr=True, covers="F4"),
    "resume_drops": Scene(
        script(*(reply("Aye.") for _ in range(4))), perform=resume_drops, stderr=True
    ),
    "resume_unknown": Scene(
        TALK, ends_by_itself, (f"--resume={NOBODY}",), stderr=True, covers="F4 D9"
    ),
    "resume_repeated_uuid": Scene(TALK, perform=resume_repeats, covers="A26"),
    "resume_after_end": Scene(
        script(reply("Aye."), reply(bash("touch made")), reply("Still aye.")),
        perform=interrupted_then_resumed,
        covers="F4 D5",
    ),
    "continue_nothing": Scene(TALK, turns("Hello."), ("--continue",), stderr=True, covers="F4"),
    "no_persistence": Scene(
        script(reply("Hello.")), turns("Hello."), ("--no-session-persistence",), covers="F4"
    ),
    "compact": Scene(
        script(reply("A long story."), reply("Where were we?")),
        turns("Tell me.", "/compact", "Go on."),
        (REPLAY,),
        covers="A19 H7",
    ),
    "compact_nothing": Scene(script(), turns("/compact"), (REPLAY,)),
    "compact_with_hooks": Scene(
        script(reply("A long story."), reply("Where were we?")),
        initialized(
            "Tell me.",
            "/compact",
            "Go on.",
            hooks={
                event: [{"hookCallbackIds": [event]}]
                for event in ("PreCompact", "PostCompact", "SessionStart")
            },
        ),
        answers={"hook_callback": lambda _: {}},
        covers="H6 H7",
    ),
    "clear": Scene(
        script(reply("A long story."), reply("Who are you?")),
        turns("Tell me.", "/clear", "Hello again."),
        (REPLAY,),
        covers="A19 A21",
    ),
    "slash_unknown": Scene(
        script(reply("What?"), reply("What else?")),
        turns("/nosuch thing", "Go on."),
        (REPLAY,),
        covers="A19",
    ),
    "slash_cost": Scene(script(reply("Aye.")), turns("Hello.", "/cost", "/context"), (REPLAY,)),
}
