"""Bash: commands that really run, in a process group of their own.

Both streams of a command go into one file, so that a command which takes too long can be moved
to the background without anybody reading for it.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome, ToolSurroundings, refused
from pilothouse_sim.simulator.tools.command import ShellCommand
from pilothouse_sim.simulator.tools.command_lines import segments
from pilothouse_sim.simulator.tools.ids import task_id

__all__ = ["background", "check", "project_folder", "run", "start", "tasks_folder"]

DEFAULT_TIMEOUT = 120_000
MAX_TIMEOUT = 600_000
MAX_OUTPUT = 30_000
MAX_ERROR = 10_000
PREVIEW = 2_000
LONGEST_SLEEP = 25
_PICTURE = re.compile(r"data:(image/[a-z0-9.+_-]+);base64,([A-Za-z0-9+/=\s]+)$", re.IGNORECASE)
_SLEEP = re.compile(r"sleep\s+(\d+(?:\.\d+)?)s?$")
_SILENT = re.compile(
    r"(cd|chgrp|chmod|chown|cp|export|ln|mkdir|mv|rm|rmdir|touch|unset|wait)(\s|$)"
)
_SILENCE = (
    " No output had been read from it when it was moved. A program that buffers its output, or a "
    "pipe into one such as tail, can keep the output file empty until the command finishes."
)
_RETURN_CODES = {
    "grep": "No matches found",
    "egrep": "No matches found",
    "fgrep": "No matches found",
    "rg": "No matches found",
    "diff": "Files differ",
    "git diff": "Files differ",
    "find": "Some directories were inaccessible",
    "test": "Condition is false",
    "[": "Condition is false",
}


def project_folder(folder: Path) -> str:
    """A folder's name where the CLI keeps things by project."""
    return re.sub(r"[^A-Za-z0-9]", "-", str(folder))


def check(arguments: dict[str, Any], _: ToolSurroundings) -> None:
    """Turn down a long sleep at the start of a command."""
    if arguments.get("run_in_background"):
        return
    first, *rest = segments(str(arguments["command"])) or [""]
    found = _SLEEP.match(first)
    if found is None or float(found[1]) < LONGEST_SLEEP:
        return
    after = " ".join(rest)
    what = f"sleep {found[1]} followed by: {after}" if rest else f"standalone sleep {found[1]}"
    raise refused(
        f"Blocked: {what}. To wait for a condition, use Monitor with an until-loop (e.g. "
        "`until <check>; do sleep 2; done`). To wait for a command you started, use "
        "run_in_background: true. Do not chain shorter sleeps to work around this block."
    )


async def run(arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
    """Run a command and give what it wrote."""
    _recover(place)
    command = await start(arguments, place)
    if arguments.get("run_in_background"):
        place.adopt(command)
        return _outcome(background(command), _result(arguments, "", task=command.task_id))
    limit = min(int(arguments.get("timeout") or DEFAULT_TIMEOUT), MAX_TIMEOUT)
    try:
        async with asyncio.timeout(max(limit, 0) / 1000):
            code = await command.wait()
    except TimeoutError:
        return _moved(arguments, place, command, limit)
    except asyncio.CancelledError:
        command.kill()
        await asyncio.shield(command.process.wait())
        command.forget(output=True)
        raise
    return _finished(arguments, place, command, code)


async def start(arguments: dict[str, Any], place: ToolSurroundings) -> ShellCommand:
    """Start a command whose output goes into a file."""
    name = task_id()
    folder = tasks_folder(place)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    output, end = folder / f"{name}.output", folder / f"{name}.cwd"
    words, tool_use_id = str(arguments["command"]), place.tool_use_id
    script = f"eval {_quoted(words)} && pwd -P >| {_quoted(str(end))}"
    starting = asyncio.ensure_future(_spawn(script, place, output))
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Whatever has begun by now is in a group of its own, which only its start can name.
        begun = ShellCommand(await starting, name, output, end)
        begun.kill()
        await begun.process.wait()
        output.unlink(missing_ok=True)
        raise
    command = ShellCommand(process, name, output, end)
    command.command, command.description = words, arguments.get("description")
    command.tool_use_id = tool_use_id
    return command


async def _spawn(script: str, place: ToolSurroundings, output: Path) -> asyncio.subprocess.Process:
    shell = _shell(place.environment)
    with output.open("wb") as file:
        return await asyncio.create_subprocess_exec(
            shell,
            "-c",
            script,
            cwd=place.cwd,
            env=_environment(place, shell),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def background(command: ShellCommand) -> str:
    """What the model is told of a command that began in the background."""
    return (
        f"Command running in background with ID: {command.task_id}. {_written_to(command)} "
        "You will be notified when it completes. To check interim output, use Read on that "
        "file path."
    )


def _written_to(command: ShellCommand) -> str:
    return f"Output is being written to: {command.output_path}."


def _moved(
    arguments: dict[str, Any], place: ToolSurroundings, command: ShellCommand, limit: int
) -> ToolOutcome:
    """A command over its time goes on in the background."""
    place.adopt(command)
    output = command.output(MAX_OUTPUT)
    silence = "" if output else _SILENCE
    words = (
        f"Command did not complete within its {max((limit + 500) // 1000, 1)}s timeout and was "
        f"moved to the background (ID: {command.task_id}). {_written_to(command)} Its end will "
        f"be told; TaskStop ends it before.{silence}"
    )
    result = _result(arguments, output, task=command.task_id)
    return _outcome("\n".join(filter(None, (output, words))), {**result, "timedOutAfterMs": limit})


def _finished(
    arguments: dict[str, Any], place: ToolSurroundings, command: ShellCommand, code: int
) -> ToolOutcome:
    output, size = command.output(MAX_OUTPUT), command.size()
    meaning = _meaning(str(arguments["command"]), code)
    kept = _persisted(command, place) if size > MAX_OUTPUT and not (code and not meaning) else None
    folder = command.folder()
    command.forget(output=True)
    if code and meaning is None:
        raise ToolFailure(_shortened("\n".join(filter(None, (f"Exit code {code}", output)))))
    notice = _follow(place, folder)
    if picture := _PICTURE.match(output):
        return _picture(arguments, output, picture)
    result = _result(arguments, output, notice=notice, meaning=meaning)
    if kept is not None:
        result |= {"persistedOutputPath": str(kept), "persistedOutputSize": size}
        output = _preview(output, kept, size)
    return _outcome("\n".join(filter(None, (output, notice.strip()))), result)


def _picture(arguments: dict[str, Any], output: str, found: re.Match[str]) -> ToolOutcome:
    """A data URL on stdout is shown to the model as what it is."""
    source = {"type": "base64", "media_type": found[1], "data": found[2]}
    return ToolOutcome(
        content=[{"type": "image", "source": source}],
        result={**_result(arguments, output), "isImage": True},
    )


def _outcome(words: str, result: dict[str, Any]) -> ToolOutcome:
    return ToolOutcome(
        content=words or "(Bash completed with no output)", result=result, is_error=False
    )


def _result(
    arguments: dict[str, Any],
    output: str,
    *,
    notice: str = "",
    meaning: str | None = None,
    task: str | None = None,
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "stdout": output,
        "stderr": notice,
        "interrupted": False,
        "isImage": False,
    }
    if meaning is not None:
        result["returnCodeInterpretation"] = meaning
    result["noOutputExpected"] = _is_silent(str(arguments["command"]))
    if task is not None:
        result["backgroundTaskId"] = task
    if arguments.get("dangerouslyDisableSandbox"):
        result["dangerouslyDisableSandbox"] = True
    return result


def _recover(place: ToolSurroundings) -> None:
    """Go back to where the session began when the shell's folder is gone."""
    if place.cwd.is_dir():
        return
    gone, place.cwd = place.cwd, place.home_folder
    raise ToolFailure(
        f'Working directory "{gone}" no longer exists, so this command was not run. Shell cwd '
        f'recovered to "{place.cwd}": re-issue the command if it still makes sense there.'
    )


def _follow(place: ToolSurroundings, folder: Path | None) -> str:
    """Stands where the command ended, unless that is outside of what it may use."""
    if folder is None or folder == place.cwd:
        return ""
    allowed = (place.home_folder, *place.directories)
    if any(folder.is_relative_to(Path(entry).resolve()) for entry in allowed):
        place.cwd = folder
        return ""
    place.cwd = place.home_folder
    return f"\nShell cwd was reset to {place.cwd}"


def _persisted(command: ShellCommand, place: ToolSurroundings) -> Path:
    """Keep output that is too long for the model."""
    folder = place.config_dir / "projects" / project_folder(place.home_folder)
    kept = folder / place.session_id / "tool-results" / f"{command.task_id}.txt"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(command.output_path.read_bytes())
    return kept


def _preview(output: str, kept: Path, size: int) -> str:
    first = output[:PREVIEW]
    at = first.rfind("\n")
    # A line is not cut when the lines before it fill more than half of the preview.
    first = first[:at] if at > PREVIEW // 2 else first
    amount = f"{size / 1024:.1f}".removesuffix(".0")
    return (
        f"<persisted-output>\nOutput too large ({amount}KB). Full output saved to: {kept}\n\n"
        f"Preview (first 2KB):\n{first}\n...\n</persisted-output>"
    )


def _shortened(words: str) -> str:
    if len(words) <= MAX_ERROR:
        return words
    half = MAX_ERROR // 2
    cut = len(words) - MAX_ERROR
    return f"{words[:half]}\n\n... [{cut} characters truncated] ...\n\n{words[-half:]}"


def _is_silent(command: str) -> bool:
    """Whether nobody expects the command to write anything."""
    simple = segments(command)
    return bool(simple) and all(_SILENT.match(part) for part in simple)


def _meaning(command: str, code: int) -> str | None:
    """What exit code 1 says when it is an answer rather than a failure."""
    simple = segments(command)
    if code != 1 or not simple:
        return None
    words = simple[-1].split()
    return _RETURN_CODES.get(words[0]) or _RETURN_CODES.get(" ".join(words[:2]))


def _quoted(words: str) -> str:
    return "'" + words.replace("'", "'\"'\"'") + "'"


def _shell(environment: dict[str, str]) -> str:
    wanted = environment.get("SHELL", "")
    known = wanted.endswith(("/bash", "/zsh")) and Path(wanted).exists()
    return wanted if known else "/bin/bash"


def tasks_folder(place: ToolSurroundings) -> Path:
    """Where the output of background work is written."""
    base = Path(place.environment.get("TMPDIR") or "/tmp")
    project = base / f"claude-{os.getuid()}" / project_folder(place.home_folder)
    return project / place.session_id / "tasks"


def _environment(place: ToolSurroundings, shell: str) -> dict[str, str]:
    given = place.environment
    return {
        **given,
        "AI_AGENT": "claude-code_2-1-325_agent",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_CHILD_SESSION": "1",
        "CLAUDE_CODE_ENTRYPOINT": given.get("CLAUDE_CODE_ENTRYPOINT", "sdk-cli"),
        "CLAUDE_CODE_SESSION_ATTENDED": "0",
        "CLAUDE_CODE_SESSION_ID": place.session_id,
        "CLAUDE_EFFORT": given.get("CLAUDE_EFFORT", "medium"),
        "CLAUDE_PID": str(os.getpid()),
        "COREPACK_ENABLE_AUTO_PIN": "0",
        "GIT_EDITOR": "true",
        "NoDefaultCurrentDirectoryInExePath": "1",
        "SHELL": shell,
        "TMPDIR": given.get("TMPDIR", "/tmp"),
    }
