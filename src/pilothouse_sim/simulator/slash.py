"""Commands that a prompt can be.

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
from msgspec import Struct

from pilothouse_sim.simulator import customs
from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.synthetic import synthetic

if TYPE_CHECKING:
    from pilothouse_sim.simulator.customs import Custom
    from pilothouse_sim.simulator.prompts import Prompt
    from pilothouse_sim.simulator.session import Session
    from pilothouse_sim.simulator.tally import Tally

__all__ = ["Invocation", "expand", "find", "is_command", "is_local", "run", "show"]

_NEEDING_TERMINAL: Final = (
    "add-dir advisor allowed-tools artifacts autofix-pr background bashes bg branch brief btw bug "
    "checkpoint chrome continue copy desktop diff exit export extra-usage feedback fork help hooks "
    "ide install-github-app keybindings login logout loops memory mobile passes permissions plan "
    "plugin plugins powerup privacy-settings quit radio rate-limit-options rc release-notes "
    "remote-control remote-env resume rewind sandbox schedule scroll-speed session setup-bedrock "
    "setup-vertex share skills status statusline stickers stop tasks terminal-setup theme tui "
    "ultraplan ultrareview undo upgrade vim voice web-setup workflows"
)
_DONE_HERE: Final = (
    "agents autocompact color config output-style context effort fast focus heapdump mcp model "
    "__remote-workflow workflow-launch-exec reload-plugins reload-skills rename usage recap "
    "list-agents"
)
_UNAVAILABLE: Final = frozenset(_NEEDING_TERMINAL.split())
_LOCAL: Final = frozenset(_DONE_HERE.split())
_OWN_LINES: Final = frozenset({"clear", "compact"})
"""Commands that write more than an answer."""
_CAVEAT: Final = (
    "<local-command-caveat>The user ran the command below in the CLI; it is no request to the "
    "model.</local-command-caveat>"
)


class Invocation(Struct, frozen=True, kw_only=True):
    """A command as it was typed."""

    typed: str
    name: str
    """What an alias stands for."""
    args: str

    @property
    def markup(self) -> str:
        """The command as transcripts and echoes show it."""
        return "\n            ".join(
            (
                f"<command-name>/{self.name}</command-name>",
                f"<command-message>{self.name}</command-message>",
                f"<command-args>{self.args}</command-args>",
            )
        )

    @property
    def skill_markup(self) -> str:
        """The same for commands that stand for a prompt."""
        shown = (
            f"<command-message>{self.name}</command-message>\n"
            f"<command-name>/{self.name}</command-name>"
        )
        return shown + (f"\n<command-args>{self.args}</command-args>" if self.args else "")


def find(session: Session, text: str) -> Invocation | None:
    """The command that a prompt is, if the CLI knows it."""
    matched = re.match(r"/(\S+)(?:\s+(.*))?", text, re.DOTALL)
    if matched is None:
        return None
    typed, args = matched[1], (matched[2] or "").strip()
    name = _names(session).get(typed)
    if name is None:
        return None
    return Invocation(typed=typed, name=name, args=args)


def is_command(session: Session, text: str) -> bool:
    """Whether a prompt is a command that the CLI knows."""
    return text.startswith("/") and find(session, text) is not None


def is_local(session: Session, text: str) -> bool:
    """Whether the CLI carries a prompt out by itself."""
    command = find(session, text) if text.startswith("/") else None
    return command is not None and command.name in _UNAVAILABLE | _LOCAL | _OWN_LINES


def _names(session: Session) -> dict[str, str]:
    known = {name: name for name in _UNAVAILABLE}
    for entry in session.catalog.commands:
        known |= dict.fromkeys((entry["name"], *entry.get("aliases", ())), entry["name"])
    return known


# Prompts that commands stand for


async def expand(session: Session, prompt: Prompt) -> Prompt:
    """The prompt that a skill or a user's own command stands for; any other as it is."""
    command = find(session, prompt.text) if prompt.text.startswith("/") else None
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


def _custom(session: Session, name: str) -> Custom | None:
    sources = session.launch.setting_sources
    known = customs.own_commands(session.cwd, session.config_dir, sources)
    return next((each for each in known if each.name == name), None)


def _filled(path: Path, args: str) -> str:
    _, text = customs.read_front_matter(path)
    words = args.split()
    if "$ARGUMENTS" not in text and not re.search(r"\$\d", text):
        return f"{text}\n\nARGUMENTS: {args}" if args else text
    filled = text.replace("$ARGUMENTS", args)
    return re.sub(r"\$(\d)", lambda found: _word(words, int(found[1])), filled)


def _word(words: list[str], number: int) -> str:
    return words[number - 1] if 0 < number <= len(words) else ""


def _described(session: Session, command: Invocation) -> str:
    entry = next(each for each in session.catalog.commands if each["name"] == command.name)
    return f"{entry['description']}\n{command.args}".rstrip()


# Commands of the CLI's own


async def run(session: Session, prompt: Prompt, tally: Tally) -> None:
    """Carries out the command that a prompt is."""
    command = find(session, prompt.text)
    assert command is not None
    session.prompt_id = new_id()
    if command.name in _UNAVAILABLE:
        await _turn_down(session, command, tally)
    elif command.name in _OWN_LINES:
        await _own_lines()[command.name](session, command, prompt, tally)
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
        show(session, command, prompt, tally, text, **(more(session) if more else {}))


def _own_lines() -> dict[str, Callable[[Session, Invocation, Prompt, Tally], Awaitable[None]]]:
    # Most sessions never compact.
    from pilothouse_sim.simulator import compaction

    return {"clear": _clear, "compact": compaction.on_command}


async def _turn_down(session: Session, command: Invocation, tally: Tally) -> None:
    session.announce(tally.uuids)
    text = f"/{command.typed} isn't available in this environment."
    _say(session, text, local_command_outcome={"kind": "unavailable_headless"})
    session.turns.results.write_local(tally, None, text)


async def _clear(session: Session, command: Invocation, prompt: Prompt, tally: Tally) -> None:
    await session.hooks.session_ended("clear")
    own = new_id()
    uuids = {"user_message_uuid": prompt.uuid} if prompt.uuid else {}
    session.outlet.send(
        "conversation_reset",
        new_conversation_id=own,
        uuid=own,
        trigger="clear",
        **uuids,
        timestamp=timestamp(),
    )
    session.outlet.system("background_tasks_changed", tasks=[])
    session.begin_anew()
    await session.hooks.session_started("clear")
    session.announce(tally.uuids)
    keep(session, command, prompt, "")
    echo(session, command, prompt)
    session.turns.results.write_local(tally, command.typed)


def show(
    session: Session,
    command: Invocation,
    prompt: Prompt,
    tally: Tally,
    text: str,
    **extra: Any,
) -> None:
    """Writes what a command says, and its result."""
    run = {"command": command.name, "args": command.args}
    _say(session, text, local_command_run=run, **extra)
    keep(session, command, prompt, text)
    echo(session, command, prompt)
    session.turns.results.write_local(tally, command.typed, text)


def fail(session: Session, command: Invocation, prompt: Prompt, tally: Tally, text: str) -> None:
    """Writes that a command went wrong, and its result."""
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
    keep(session, command, prompt, text)
    echo(session, command, prompt)
    session.turns.results.write_local(tally, command.typed)


def _say(session: Session, text: str, **extra: Any) -> None:
    message = synthetic(text) | {"stop_reason": "end_turn", "stop_sequence": None}
    session.outlet.send(
        "assistant",
        message=message,
        parent_tool_use_id=None,
        timestamp=timestamp(),
        **{"local_command_source": _output(text), **extra},
    )


def echo(session: Session, command: Invocation, prompt: Prompt) -> None:
    """Repeats a command to clients that asked for it."""
    session.turns.main.echo(msgspec.structs.replace(prompt, content=command.markup))


def keep(session: Session, command: Invocation, prompt: Prompt, text: str) -> None:
    """Keeps a command and what it said in the conversation."""
    transcript = session.transcript
    session.turns.main.add("user", f"{command.markup}\n{_output(text)}")
    keep_call(session, command, prompt)
    transcript.main_line(
        "system",
        subtype="local_command",
        content=_output(text),
        level="info",
        isMeta=False,
        commandRun={"command": command.name, "args": command.args},
    )


def keep_call(session: Session, command: Invocation, prompt: Prompt) -> None:
    """Keeps a command in the transcript."""
    for content, fields in ((_CAVEAT, {"isMeta": True}), (command.markup, _own_id(prompt))):
        session.transcript.main_line(
            "user",
            promptId=session.prompt_id,
            message={"role": "user", "content": content},
            **fields,
        )


def _own_id(prompt: Prompt) -> dict[str, str]:
    return {"uuid": prompt.uuid, "turnAttributionKey": prompt.uuid} if prompt.uuid else {}


def _output(text: str) -> str:
    return f"<local-command-stdout>{text}</local-command-stdout>"
