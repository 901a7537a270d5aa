"""Which CLI a server's sessions run on: the user's, or the simulator where that cannot work."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from pilothouse.errors import CLINotFound, ServerError
from pilothouse.folders import make_private
from pilothouse.settings import Settings
from pilothouse.simulator_program import SIMULATOR, write_simulator

from .folders import SIMULATED_NAME, WORK_NAME
from .runtime import usable

if TYPE_CHECKING:
    from pilothouse.client.doctor import Finding

__all__ = ["CLIChoice", "choose", "journal_path"]


class CLIChoice(NamedTuple):
    """What to run sessions on, and with what."""

    simulated: bool
    cli_path: Path
    settings: Settings
    """The given ones, with the simulator's own folders where it is used."""
    env: dict[str, str]
    """What a CLI finds around it."""
    journal: Path
    note: str = ""
    """One line for the user: why the simulator is used."""
    scratch: Path | None = None
    """Where simulated sessions work, in folders that stand for those of their callers."""
    lack: str | None = None
    """What keeps sessions from running on a CLI, where nobody asked for the simulator."""


def choose(settings: Settings, env: Mapping[str, str]) -> CLIChoice:
    """The user's CLI where there is one with a credential, if `simulate` leaves it to us."""
    from pilothouse.client.doctor import missing  # faces that find a server need none of it
    from pilothouse.client.locate import find_cli

    if settings.simulate == "always":
        return _simulator(
            settings, env, "sessions run on the simulator, because `simulate` says so"
        )
    around = _around_cli(settings, env)
    if _names_simulator(settings.cli_path):
        told = f"{settings.sources['cli_path']} names it"
        return _simulator(settings, env, f"sessions run on the simulator, because {told}")
    _check_named(settings, around)
    lack = missing(around, settings.cli_path)
    if lack is None:
        cli = find_cli(settings.cli_path, around)
        return CLIChoice(False, cli, settings, around, journal_path(settings, simulated=False))
    # Some texts bring advice of their own.
    told = f"{lack.name}: {lack.text.partition(';')[0]}; {lack.advice}"
    if settings.simulate == "never":
        raise ServerError(f"{told}, or set simulate to auto")
    choice = _simulator(settings, env, f"sessions run on the simulator: {told}")
    return choice._replace(lack=_lack(lack))


def _names_simulator(cli_path: str | None) -> bool:
    """Whether the CLI that was named is the simulator, which needs no credential."""
    if cli_path is None or Path(cli_path).name != SIMULATOR:
        return False
    # By its name alone it is the one of this installation, also where that is not on PATH.
    return cli_path == SIMULATOR or Path(cli_path).exists()


def _check_named(settings: Settings, around: Mapping[str, str]) -> None:
    """Refuse a CLI that was named and is not there: whoever named it wants no other."""
    from pilothouse.client.locate import find_cli  # as above

    if settings.cli_path is None:
        return
    try:
        find_cli(settings.cli_path, around)
    except CLINotFound as error:
        told = f"{error} ({settings.sources['cli_path']})"
        advice = "correct it, or leave it out for the one on PATH; `--simulate always` needs none"
        raise ServerError(f"{told}; {advice}") from None


def _lack(found: Finding) -> str:
    """What is missing and how to get it, for somebody who wanted a session."""
    text = found.text.partition(";")[0]
    if found.name == "credential":
        return f"Claude Code is not signed in: {text}; {found.advice}"
    return f"sessions need the Claude Code CLI: {text}; install it: {found.advice}"


def journal_path(settings: Settings, *, simulated: bool) -> Path:
    """Where the journal is. What was simulated and cost nothing never mixes with what was not."""
    folder = settings.state_dir / SIMULATED_NAME if simulated else settings.state_dir
    return folder / "journal.db"


def _around_cli(settings: Settings, env: Mapping[str, str]) -> dict[str, str]:
    """What a CLI of the user's finds around it: the user's environment, and no session's."""
    plain = _of_no_session(env)
    # Once this variable is set at all, the CLI looks elsewhere for some of its files.
    if settings.sources["claude_config_dir"] != "default":
        plain["CLAUDE_CONFIG_DIR"] = str(settings.claude_config_dir)
    return plain


def _of_no_session(env: Mapping[str, str]) -> dict[str, str]:
    from pilothouse.client.launch import ENCLOSING_SESSION  # as above

    # A session's own folder is not the server's.
    foreign = ENCLOSING_SESSION | {"PWD", "OLDPWD"}
    return {name: value for name, value in env.items() if name not in foreign}


def _simulator(settings: Settings, env: Mapping[str, str], note: str) -> CLIChoice:
    """The simulator, with a home of its own: nothing of the user's is read or written."""
    folder = settings.state_dir / SIMULATED_NAME
    home = folder / "home"
    config = home / ".claude"
    places = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(config)}
    with usable(folder):
        for each in (folder, home, config, folder / WORK_NAME):
            make_private(each)
        # One that is there already may be open to others.
        folder.chmod(0o700)
        cli = write_simulator(folder / "bin", places)
    own = structs.replace(settings, claude_config_dir=config, cli_path=str(cli), state_dir=folder)
    around = {**_without_credentials(_of_no_session(env)), **places}
    journal = journal_path(settings, simulated=True)
    return CLIChoice(True, cli, own, around, journal, note, scratch=folder / WORK_NAME)


def _without_credentials(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without what is meant for a real CLI."""
    foreign = ("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_")
    return {name: value for name, value in env.items() if not name.startswith(foreign)}
