"""The `pilothouse` command: the one place that wires the rooms together."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from pilothouse import __version__
from pilothouse.errors import PilothouseError, UsageError

if TYPE_CHECKING:
    from pilothouse.settings import Settings

__all__ = ["main"]

# Their flags, and those of the commands they run, are theirs to tell apart.
PROGRAMS = {
    "relay": "pilothouse.relay.main",
    "runner": "pilothouse.runner.main",
}
MCP_CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "zed")
MARKS = {"ok": "ok      ", "note": "note    ", "problem": "PROBLEM "}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 where nothing is wrong."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if words and words[0] == "record":
            _record(words[1:])
        if words and words[0] in PROGRAMS:
            return int(import_module(PROGRAMS[words[0]]).main(words[1:]))
        chosen, rest = _parser().parse_known_args(words)
        if rest:
            chosen.used.error(f"unrecognized arguments: {' '.join(rest)}")
        return int(chosen.command(chosen))
    except PilothouseError as error:
        return _complain(error, 1)
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        _forget_stdout()
        return 1


def _record(words: Sequence[str]) -> NoReturn:
    """Become the recorder, which is a program of the simulator's."""
    from pilothouse.simulator_program import RECORDER

    os.execv(RECORDER[0], [*RECORDER, *words])


def _tell(line: str) -> None:
    """Say it at once. That nobody listens any more is no reason for a server to end."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        _forget_stdout()


def _forget_stdout() -> None:
    """Write to nowhere from now on, so that leaving does not fail at what was left to write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: PilothouseError, code: int) -> int:
    print(f"pilothouse: {error}", file=sys.stderr)
    return code


# The words there are


class _Parser(argparse.ArgumentParser):
    """Says which word was perhaps meant, beside the usage of the command that was typed."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        # Of nested commands the innermost is the one that sets it last.
        self.set_defaults(used=self)

    def error(self, message: str) -> NoReturn:
        super().error(f"{self._in_words(message)}{self._perhaps(message)}")

    def _in_words(self, message: str) -> str:
        """The commands stand in the usage above: what is wrong needs no list of them again."""
        if re.match(r"the following arguments are required: \{", message):
            return f"a command is missing; `{self.prog} --help` says what each of them does"
        wrong = re.match(r"argument \{.*?\}: invalid choice: '(.*?)'", message)
        return f"there is no command {wrong[1]}" if wrong else message

    def _perhaps(self, message: str) -> str:
        import difflib  # only a mistake needs it

        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        unknown = re.match(r"unrecognized arguments: (-[^\s=]+)", message)
        if choice:
            typed, known = choice[1], [each.strip(" '") for each in choice[2].split(",")]
        elif unknown:
            typed, known = unknown[1], [*self._option_string_actions]
        else:
            return ""
        close = difflib.get_close_matches(typed, known, n=1)
        return f"; is {close[0]} meant?" if close else ""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="pilothouse", description="Steer Claude Code sessions.")
    parser.add_argument("--version", action="version", version=f"pilothouse {__version__}")
    commands = parser.add_subparsers(required=True)
    demo = commands.add_parser("demo", help="show one turn of the simulator; spends nothing")
    demo.set_defaults(command=_demo)
    _add_dial_in(commands)
    doctor = _add(commands, "doctor", "look at what sessions and a server need; say what to do")
    doctor.set_defaults(command=_doctor)
    _add_journal(commands)
    _add_mcp(commands)
    _add_open(commands)
    _add_policy(commands)
    commands.add_parser("record", help="run a CLI and keep what passes, to be replayed later")
    commands.add_parser("relay", help="run a CLI and carry it to a server, across its restarts")
    commands.add_parser("runner", help="run sessions on this machine for a server elsewhere")
    _add_runners(commands)
    _add_serve(commands)
    _add_settings(commands)
    status = _add(commands, "status", "show whether a server runs, and what it is doing")
    status.set_defaults(command=_status)
    stop = _add(commands, "stop", "end the server in order; sessions go on behind their relays")
    stop.add_argument("--all", action="store_true", help="close every session in order first")
    stop.set_defaults(command=_stop)
    commands.metavar = f"{{{','.join(commands.choices)}}}"
    return parser


def _add(
    commands: Any, name: str, does: str, *, config: str | None = None
) -> argparse.ArgumentParser:
    """A command that goes by the settings."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=does, description=does)
    told = "the settings file to read"
    parser.add_argument("--config", metavar="FILE", type=Path, default=config, help=told)
    return parser


def _add_serve(commands: Any) -> None:
    serve = _add(commands, "serve", "serve sessions on this machine over HTTP")
    serve.add_argument("--host", help="the address to listen on (127.0.0.1)")
    serve.add_argument("--port", help="the port to listen on (8137); 0 is any free one")
    serve.add_argument("--tls-cert", metavar="PEM", help="the certificate to serve https with")
    serve.add_argument("--tls-key", metavar="PEM", help="its key, if it is in another file")
    serve.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="listen beyond this machine without TLS",
    )
    serve.add_argument(
        "--allow-bypass",
        action="store_true",
        default=None,
        help="let sessions bypass permissions",
    )
    serve.add_argument(
        "--simulate",
        choices=("auto", "always", "never"),
        help="run sessions on the simulator (auto: if there is no CLI or no credential)",
    )
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    serve.add_argument(
        "--idle-exit", metavar="SECONDS", type=_seconds, help="end if nobody has needed it so long"
    )
    serve.set_defaults(command=_serve)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("a number above 0 is needed")
    return seconds


def _add_settings(commands: Any) -> None:
    settings = _add(commands, "settings", "list every setting, its value and where it came from")
    settings.add_argument("--reference", action="store_true", help="the table of all, as Markdown")
    settings.set_defaults(command=_settings)


def _add_journal(commands: Any) -> None:
    journal = commands.add_parser("journal", help="back up or export what happened")
    verbs = journal.add_subparsers(required=True, metavar="{backup,export}")
    backup = _add(verbs, "backup", "copy the journal, also while a server uses it")
    backup.add_argument("file", metavar="FILE", type=Path, help="a new file")
    backup.set_defaults(command=_backup)
    export = _add(verbs, "export", "write every event as a line of JSON")
    export.add_argument("--session", metavar="ID", help="of this session alone")
    export.add_argument("file", metavar="FILE", type=Path, help="a new file; - is stdout")
    export.set_defaults(command=_export)
    for verb in (backup, export):
        verb.add_argument("--simulated", action="store_true", help="the simulator's journal")


def _add_mcp(commands: Any) -> None:
    mcp = _add(commands, "mcp", "be an MCP server over stdin and stdout that operates sessions")
    mcp.add_argument(
        "--standalone",
        action="store_true",
        help="run sessions in this process, and close them when the client goes away",
    )
    mcp.add_argument(
        "--permission-check",
        action="store_true",
        help="offer the permission tool alone: what a CLI of somebody else's asks",
    )
    mcp.add_argument(
        "--print-config",
        metavar="NAME",
        choices=MCP_CLIENTS,
        help=f"print what to tell a client, and end: {', '.join(MCP_CLIENTS)}",
    )
    mcp.set_defaults(command=_mcp)


def _add_open(commands: Any) -> None:
    parser = _add(commands, "open", "open the console in a browser, signed in by a one-time link")
    only = "print the link and open nothing"
    parser.add_argument("--print", dest="only_print", action="store_true", help=only)
    parser.set_defaults(command=_open)


def _add_policy(commands: Any) -> None:
    policy = commands.add_parser("policy", help="check a policy file against what was asked")
    verbs = policy.add_subparsers(required=True, metavar="{check}")
    check = _add(verbs, "check", "read a policy file, and list past questions it would change")
    check.add_argument("--simulated", action="store_true", help="questions of the simulator")
    check.add_argument(
        "file", metavar="FILE", type=Path, nargs="?", help="the one in force if none"
    )
    check.set_defaults(command=_check)


def _add_dial_in(commands: Any) -> None:
    parser = _add(commands, "dial-in", "expect a CLI that you start by hand (up to 2.1.120)")
    parser.set_defaults(command=_dial_in)
    parser.add_argument(
        "cwd", metavar="DIR", nargs="?", default=".", help="where it works; here if left out"
    )
    parser.add_argument("--label", help="a word of your own, for lists and for the policy")
    parser.add_argument("--mode", help="the permission mode to start in")
    parser.add_argument("--model", help="the model to use")
    expires = "how long to wait for it (600)"
    parser.add_argument("--expires", metavar="SECONDS", type=int, default=600, help=expires)


def _add_runners(commands: Any) -> None:
    runners = _add(commands, "runners", "the other machines that run sessions for the server")
    runners.set_defaults(command=_runners, verb="list", name="", token_file=None)
    verbs = runners.add_subparsers(metavar="{list,add,drain,undrain,revoke}")
    for verb, does in (
        ("list", "list them, as no word at all does"),
        ("add", "let a machine in, with a token of its own"),
        ("drain", "send no new sessions there"),
        ("undrain", "send sessions there again"),
        ("revoke", "let it in no more"),
    ):
        # What was said before the verb stays.
        parser = _add(verbs, verb, does, config=argparse.SUPPRESS)
        parser.set_defaults(verb=verb)
        if verb != "list":
            parser.add_argument("name", metavar="NAME", help="what the machine is called here")
        if verb == "add":
            file = "a new file for the token (NAME.token)"
            parser.add_argument("--token-file", metavar="FILE", type=Path, help=file)


# The commands. Each imports what it needs and no other does.


def _demo(_: argparse.Namespace) -> int:
    import asyncio

    from pilothouse.demo import demonstrate

    print("A turn of the simulator (no CLI, no model, no money):")
    turn = asyncio.run(demonstrate(print))
    return 0 if turn.outcome == "finished" else 1


def _doctor(chosen: argparse.Namespace) -> int:
    from pilothouse.client.doctor import examine
    from pilothouse.server.checkup import examine_server

    settings = _load(chosen)
    findings = [*examine(cli_path=settings.cli_path), *examine_server(settings)]
    for finding in findings:
        print(f"{MARKS[finding.state]}{finding.name}: {finding.text}")
        if finding.advice:
            print(f"        -> {finding.advice}")
    return 1 if any(finding.state == "problem" for finding in findings) else 0


def _load(chosen: argparse.Namespace) -> Settings:
    from pilothouse.settings import TABLE, load

    flags = {row.name: getattr(chosen, row.name, None) for row in TABLE}
    return load(env=os.environ, file=chosen.config, flags=flags)


def _serve(chosen: argparse.Namespace) -> int:
    import asyncio

    from pilothouse.server.foreground import serve
    from pilothouse.server.runtime import TAKEN, AlreadyServed

    settings = _load(chosen)
    try:
        serving = serve(
            settings,
            env=os.environ,
            tell=_tell,
            idle_exit_s=chosen.idle_exit,
            is_watched=sys.stdout is not None and sys.stdout.isatty(),
        )
        asyncio.run(serving)
    except AlreadyServed as error:
        return _complain(error, TAKEN)
    return 0


def _mcp(chosen: argparse.Namespace) -> int:
    if chosen.standalone and chosen.permission_check:
        raise UsageError(
            "--standalone and --permission-check exclude each other: what a CLI asks would be "
            "asked where nobody can answer it; leave --standalone out"
        )
    if chosen.print_config is not None:
        _print_config(chosen)
        return 0
    from pilothouse.server.mcp import run_stdio

    settings = _load(chosen)
    if sys.stdin is not None and sys.stdin.isatty():
        print("waiting for an MCP client on stdin; see also --print-config", file=sys.stderr)
    run_stdio(
        settings,
        env=os.environ,
        standalone=chosen.standalone,
        permission_check=chosen.permission_check,
    )
    return 0


def _open(chosen: argparse.Namespace) -> int:
    import asyncio

    from pilothouse.server.console_link import ask_link, show

    settings = _load(chosen)
    link = asyncio.run(ask_link(settings))
    if link.warning:
        _note(link.warning)
    print(link.url, flush=True)
    if not chosen.only_print and show(link, settings.runtime_dir, os.environ):
        _note("where the browser shows an error, open the link in it yourself")
    _note("the link signs one browser in, within ten minutes")
    return 0


def _print_config(chosen: argparse.Namespace) -> None:
    from pilothouse.faces.mcp.configs import command_of, print_config

    given = {
        "--standalone": chosen.standalone,
        "--permission-check": chosen.permission_check,
    }
    config = [] if chosen.config is None else ["--config", str(chosen.config.absolute())]
    flags = [flag for flag, is_given in given.items() if is_given]
    print_config(chosen.print_config, command_of("mcp", *flags, *config))


def _status(chosen: argparse.Namespace) -> int:
    from pilothouse.server.status import report

    lines, running = report(_load(chosen))
    print(*lines, sep="\n")
    return 0 if running else 1


def _note(line: str) -> None:
    """Say what goes on to whoever watches; what comes of it is on stdout."""
    print(line, file=sys.stderr, flush=True)


def _stop(chosen: argparse.Namespace) -> int:
    from pilothouse.server.status import stop, stop_all

    settings = _load(chosen)
    print(stop_all(settings, _note) if chosen.all else stop(settings))
    return 0


def _dial_in(chosen: argparse.Namespace) -> int:
    import asyncio

    from pilothouse.api.requests import DialIn
    from pilothouse.server.dial_in import dial_in

    request = DialIn(
        cwd=str(Path(chosen.cwd).absolute()),
        mode=chosen.mode,
        model=chosen.model,
        label=chosen.label,
        expires_s=chosen.expires,
    )
    command, told = asyncio.run(dial_in(_load(chosen), request))
    for each in told:
        _note(each)
    print(command)
    return 0


def _runners(chosen: argparse.Namespace) -> int:
    import asyncio

    from pilothouse.server.machines import manage

    done = manage(_load(chosen), chosen.verb, chosen.name, chosen.token_file)
    print(*asyncio.run(done), sep="\n")
    return 0


def _settings(chosen: argparse.Namespace) -> int:
    from pilothouse.settings import reference

    if chosen.reference:
        print(reference(), end="")
        return 0
    for name, value, source in _load(chosen).describe():
        print(f"{name:22} {_shown(value):36} {source}")
    return 0


def _shown(value: Any) -> str:
    match value:
        case None | []:
            return "-"
        case bool():
            return str(value).lower()
        case list():
            return ", ".join(map(str, cast("list[Any]", value)))
        case _:
            return str(value)


def _backup(chosen: argparse.Namespace) -> int:
    from pilothouse.server.upkeep import backup

    print(backup(_load(chosen), chosen.file, simulated=chosen.simulated))
    return 0


def _export(chosen: argparse.Namespace) -> int:
    from pilothouse.server.upkeep import export

    told = export(_load(chosen), chosen.file, session_id=chosen.session, simulated=chosen.simulated)
    print(told, file=sys.stderr)
    return 0


def _check(chosen: argparse.Namespace) -> int:
    from pilothouse.server.upkeep import check_policy

    settings = _load(chosen)
    lines = check_policy(settings, chosen.file, env=os.environ, simulated=chosen.simulated)
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
