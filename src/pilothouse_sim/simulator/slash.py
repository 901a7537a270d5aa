"""Carries out the commands that a prompt can be.

Four kinds, as 2.1.325 takes them without a terminal:
- it carries out some by itself and never asks the model (`local_commands`, `compaction`, /clear);
- some need a terminal: it says that they are not available;
- skills, and commands that users keep in files, stand for a longer prompt to the model;
- what it does not know goes to the model as it is.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pilothouse_sim.simulator import user_extensions
from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.compaction import TOO_SHORT, TooShort
from pilothouse_sim.simulator.invocations import OWN_LINES, UNAVAILABLE, find
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.synthetic import synthetic

if TYPE_CHECKING:
    from pilothouse_sim.simulator.compaction import Compacted
    from pilothouse_sim.simulator.invocations import Invocation
    from pilothouse_sim.simulator.prompts import ClientPrompt
    from pilothouse_sim.simulator.session import SimulatedSession
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.user_extensions import Custom

__all__ = ["expand", "run"]

_CAVEAT: Final = (
    "<local-command-caveat>The user ran the command below in the CLI; it is no request to the "
    "model.</local-command-caveat>"
)


# Prompts that commands stand for


async def expand(session: SimulatedSession, prompt: ClientPrompt) -> ClientPrompt:
    """The prompt that a skill or a user's own command stands for; any other as it is."""
    command = find(session.state.catalog, prompt.text) if prompt.text.startswith("/") else None
    if command is None:
        return prompt
    custom = _custom(session, command.name)
    told = {
        "expansion_type": "slash_command",
        "command_name": command.name,
        "command_args": command.args,
        "command_source": f"{custom.label}Settings" if custom else "builtin",
        "prompt": prompt.text,
    }
    await session.hooks.fire("UserPromptExpansion", told, query=command.name)
    meant = _filled(custom.path, command.args) if custom else _described(session, command)
    return msgspec.structs.replace(prompt, content=command.skill_markup, expansion=meant)


def _custom(session: SimulatedSession, name: str) -> Custom | None:
    sources = session.state.launch.setting_sources
    known = user_extensions.own_commands(session.state.cwd, session.state.config_dir, sources)
    return next((each for each in known if each.name == name), None)


def _filled(path: Path, args: str) -> str:
    _, text = user_extensions.read_front_matter(path)
    words = args.split()
    if "$ARGUMENTS" not in text and not re.search(r"\$\d", text):
        return f"{text}\n\nARGUMENTS: {args}" if args else text
    filled = text.replace("$ARGUMENTS", args)
    return re.sub(r"\$(\d)", lambda found: _word(words, int(found[1])), filled)


def _word(words: list[str], number: int) -> str:
    return words[number - 1] if 0 < number <= len(words) else ""


def _described(session: SimulatedSession, command: Invocation) -> str:
    entry = next(each for each in session.state.catalog.commands if each["name"] == command.name)
    return f"{entry['description']}\n{command.args}".rstrip()


# Commands of the CLI's own


async def run(session: SimulatedSession, prompt: ClientPrompt, tally: Tally) -> None:
    """Carry out the command that a prompt is."""
    command = find(session.state.catalog, prompt.text)
    assert command is not None
    session.state.prompt_id = new_id()
    if command.name in UNAVAILABLE:
        await _turn_down(session, command, tally)
    elif command.name in OWN_LINES:
        await _OWN_LINES[command.name](session, command, prompt, tally)
    else:
        # Most sessions never see one of them.
        from pilothouse_sim.simulator.local_commands import EXTRA_FIELDS, LOCAL_COMMANDS

        # A title is told before the turn opens; what else changes shows in the next turn.
        early = command.name == "rename"
        text = await LOCAL_COMMANDS[command.name](session, command.args) if early else None
        session.announce(tally.uuids)
        if text is None:
            text = await LOCAL_COMMANDS[command.name](session, command.args)
        more = EXTRA_FIELDS.get(command.name)
        _show(session, command, prompt, tally, text, **(more(session) if more else {}))


async def _turn_down(session: SimulatedSession, command: Invocation, tally: Tally) -> None:
    session.announce(tally.uuids)
    text = f"/{command.typed} isn't available in this environment."
    _say(session, text, local_command_outcome={"kind": "unavailable_headless"})
    session.results.write_local(tally, None, text)


async def _clear(
    session: SimulatedSession, command: Invocation, prompt: ClientPrompt, tally: Tally
) -> None:
    await session.hooks.session_ended("clear")
    own = new_id()
    uuids = {"user_message_uuid": prompt.uuid} if prompt.uuid else {}
    session.state.outlet.send(
        "conversation_reset",
        new_conversation_id=own,
        uuid=own,
        trigger="clear",
        **uuids,
        timestamp=timestamp(),
    )
    session.state.outlet.system("background_tasks_changed", tasks=[])
    session.begin_anew()
    await session.hooks.session_started("clear")
    session.announce(tally.uuids)
    _keep(session, command, prompt, "")
    _echo(session, command, prompt)
    session.results.write_local(tally, command.typed)


async def _compact(
    session: SimulatedSession, command: Invocation, prompt: ClientPrompt, tally: Tally
) -> None:
    if not session.main.messages:
        session.announce(tally.uuids)
        _fail(session, command, prompt, tally, "Error: No messages to compact")
        return
    try:
        done = await session.compaction.compact("manual", command.args)
    except TooShort:
        session.announce(tally.uuids)
        _show(session, command, prompt, tally, TOO_SHORT)
        return
    session.announce(tally.uuids)
    session.compaction.settle(done)
    _keep_call(session, command, prompt)
    _report_compacted(session, done)
    _echo(session, command, prompt)
    session.results.write_local(tally, command.typed)


def _report_compacted(session: SimulatedSession, done: Compacted) -> None:
    """Say that the command is done, as its output."""
    own = new_id()
    notes = "\n".join(done.notes)
    said = f"<local-command-stdout>Compacted {notes}</local-command-stdout>"
    session.state.outlet.send(
        "user",
        message={"role": "user", "content": said},
        parent_tool_use_id=None,
        uuid=own,
        timestamp=timestamp(),
        isReplay=True,
    )
    session.transcript.main_line(
        "user",
        promptId=session.state.prompt_id,
        uuid=own,
        message={"role": "user", "content": said},
    )


_OWN_LINES: Final[
    dict[str, Callable[[SimulatedSession, Invocation, ClientPrompt, Tally], Awaitable[None]]]
] = {
    "clear": _clear,
    "compact": _compact,
}


def _show(
    session: SimulatedSession,
    command: Invocation,
    prompt: ClientPrompt,
    tally: Tally,
    text: str,
    **extra: Any,
) -> None:
    """Write what a command says, and its result."""
    run = {"command": command.name, "args": command.args}
    _say(session, text, local_command_run=run, **extra)
    _keep(session, command, prompt, text)
    _echo(session, command, prompt)
    session.results.write_local(tally, command.typed, text)


def _fail(
    session: SimulatedSession, command: Invocation, prompt: ClientPrompt, tally: Tally, text: str
) -> None:
    """Write that a command went wrong, and its result."""
    run = {"command": command.name, "args": command.args}
    source = f"<local-command-stderr>{text}</local-command-stderr>"
    outcome = {"kind": "failed"}
    _say(
        session,
        text,
        local_command_run=run,
        local_command_source=source,
        local_command_outcome=outcome,
    )
    _keep(session, command, prompt, text)
    _echo(session, command, prompt)
    session.results.write_local(tally, command.typed)


def _say(session: SimulatedSession, text: str, **extra: Any) -> None:
    message = synthetic(text) | {"stop_reason": "end_turn", "stop_sequence": None}
    session.state.outlet.send(
        "assistant",
        message=message,
        parent_tool_use_id=None,
        timestamp=timestamp(),
        **{"local_command_source": _output(text), **extra},
    )


def _echo(session: SimulatedSession, command: Invocation, prompt: ClientPrompt) -> None:
    """Repeat a command to clients that asked for it."""
    session.main.echo(msgspec.structs.replace(prompt, content=command.markup))


def _keep(session: SimulatedSession, command: Invocation, prompt: ClientPrompt, text: str) -> None:
    """Keep a command and what it said in the conversation."""
    transcript = session.transcript
    session.main.add("user", f"{command.markup}\n{_output(text)}")
    _keep_call(session, command, prompt)
    transcript.main_line(
        "system",
        subtype="local_command",
        content=_output(text),
        level="info",
        isMeta=False,
        commandRun={"command": command.name, "args": command.args},
    )


def _keep_call(session: SimulatedSession, command: Invocation, prompt: ClientPrompt) -> None:
    """Keep a command in the transcript."""
    for content, fields in ((_CAVEAT, {"isMeta": True}), (command.markup, _own_id(prompt))):
        session.transcript.main_line(
            "user",
            promptId=session.state.prompt_id,
            message={"role": "user", "content": content},
            **fields,
        )


def _own_id(prompt: ClientPrompt) -> dict[str, str]:
    return {"uuid": prompt.uuid, "turnAttributionKey": prompt.uuid} if prompt.uuid else {}


def _output(text: str) -> str:
    return f"<local-command-stdout>{text}</local-command-stdout>"
