"""The recorder between a client and its CLI: bytes, signals, exit codes, and every way to end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pilothouse_sim.cassettes import Cassette, read
from pilothouse_sim.recorder import write_launcher
from tests.support.waiting import DEADLINE

RECORDER = (sys.executable, "-P", "-m", "pilothouse_sim.recorder")
ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(b"echo " + line)
    sys.stdout.buffer.flush()
"""
OBEY = """
import os, signal, sys
def heard(number, frame):
    os.write(1, b"heard %d\\n" % number)
    if number == signal.SIGTERM:
        os._exit(5)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, heard)
os.write(1, b"%d\\n" % os.getpid())
sys.stdin.read()
os.write(1, b"end of input\\n")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.jsonl"


@asynccontextmanager
async def recording(
    path: Path, script: str, *options: str, env: dict[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python script as the CLI, under a recorder that is killed if the test leaves it."""
    process = await asyncio.create_subprocess_exec(
        *RECORDER,
        *("--to", str(path), *options, "--", sys.executable, "-c", script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": "/home/annabel", **(env or {})},
        start_new_session=True,
        limit=1 << 24,
    )
    try:
        async with asyncio.timeout(DEADLINE):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readline()


def said(cassette: Cassette) -> list[tuple[str, bytes | None]]:
    """The lines of both directions, in order."""
    return [(each.kind, each.data) for each in cassette.entries if each.data is not None]


async def test_lines_pass_at_once_and_stand_in_order(path: Path) -> None:
    async with recording(path, ECHO) as process:
        assert process.stdin is not None
        for word in (b"one", b"two"):
            process.stdin.write(word + b"\n")
            assert await line_of(process) == b"echo " + word + b"\n"
        process.stdin.close()
        assert await process.wait() == 0
    cassette = read(path)
    assert said(cassette) == [
        ("in", b"one"),
        ("out", b"echo one"),
        ("in", b"two"),
        ("out", b"echo two"),
    ]
    assert [each.is_eof for each in cassette.entries].count(True) == 3
    assert (cassette.entries[-1].kind, cassette.entries[-1].code) == ("exit", 0)
    times = [each.at for each in cassette.entries]
    assert times == sorted(times)


async def test_a_line_passes_before_it_is_whole(path: Path) -> None:
    script = "import os; os.write(1, b'half'); os.read(0, 1); os.write(1, b' a line')"
    async with recording(path, script) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert await process.stdout.readexactly(4) == b"half"
        process.stdin.write(b"x")
        assert await process.stdout.read() == b" a line"
        await process.wait()
    cut = [each for each in read(path).entries if each.cut]
    assert sorted((each.kind, each.data) for each in cut) == [("in", b"x"), ("out", b"half a line")]


async def test_any_bytes_pass_unchanged_in_every_stream(path: Path) -> None:
    data = bytes(range(256)) * 4096
    script = "import os, sys; data = sys.stdin.buffer.read()\n"
    script += "os.write(2, b'!'); sys.stdout.buffer.write(data)"
    async with recording(path, script) as process:
        assert await process.communicate(data) == (data, b"!")
    lines = [each.data or b"" for each in read(path).entries if each.kind == "out"]
    assert b"\n".join(lines[:-1]) == data


def test_a_client_that_reads_slowly_gets_all_that_was_said_before_the_end(path: Path) -> None:
    # The pipes hold the last of it after the command has ended, for longer than an idle second.
    script = "import os; os.write(1, b'x' * (1 << 18))"
    command = [*RECORDER, "--to", str(path), "--", sys.executable, "-c", script]
    size = 0
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while data := os.read(process.stdout.fileno(), 1 << 16):
            size += len(data)
            time.sleep(0.6)
    assert size == 1 << 18


async def test_a_client_that_does_not_read_can_still_write(path: Path) -> None:
    # Far more than the pipes hold, before the client reads a byte of it.
    script = "import os, sys, threading\n"
    script += "threading.Thread(target=lambda: os.write(1, b'x' * 2_000_000)).start()\n"
    script += "os.write(2, sys.stdin.buffer.readline())"
    async with recording(path, script) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"heard\n")
        assert await process.stderr.readline() == b"heard\n"


async def test_what_the_client_has_seen_is_recorded_although_all_is_killed(path: Path) -> None:
    async with recording(path, ECHO) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        await line_of(process)
        process.kill()
        await process.wait()
    assert said(read(path)) == [("in", b"one"), ("out", b"echo one")]


async def test_the_exit_code_is_the_commands(path: Path) -> None:
    async with recording(path, "raise SystemExit(7)") as process:
        assert await process.wait() == 7
    assert read(path).entries[-1].code == 7


async def test_a_death_by_signal_is_one(path: Path) -> None:
    async with recording(path, "import os; os.kill(os.getpid(), 9)") as process:
        assert await process.wait() == -signal.SIGKILL
    assert read(path).entries[-1].signal == signal.SIGKILL


@pytest.mark.parametrize("to_group", [False, True])
async def test_a_signal_reaches_the_command_once(path: Path, to_group: bool) -> None:
    async with recording(path, OBEY) as process:
        await line_of(process)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            send = os.killpg if to_group else os.kill
            send(process.pid, number)
            assert await line_of(process) == b"heard %d\n" % number
        assert await process.wait() == 5
    entries = [(each.kind, each.signal) for each in read(path).entries if each.signal]
    assert entries == [("signal", 2), ("signal", 1), ("signal", 15)]


async def test_the_command_does_not_outlive_a_killed_recorder(path: Path) -> None:
    async with recording(path, OBEY) as process:
        assert process.stdout is not None
        await line_of(process)
        process.kill()
        # Its stdout ends when the last holder of it is gone.
        rest = await process.stdout.read()
    assert rest == b""


async def write_for_ever(pipe: asyncio.StreamWriter) -> None:
    while True:
        pipe.write(b"x\n")
        await pipe.drain()


async def test_a_command_that_closes_its_input_lets_the_client_know(path: Path) -> None:
    script = "import os, signal; os.close(0); os.write(1, b'.\\n'); signal.pause()"
    async with recording(path, script) as process:
        assert process.stdin is not None
        await line_of(process)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            await write_for_ever(process.stdin)


async def test_a_client_that_closes_its_output_is_gone_for_the_command(path: Path) -> None:
    script = "import os, sys\nsys.stdin.readline()\nwhile True: os.write(1, b'x' * 4096)"
    process = await asyncio.create_subprocess_exec(
        *RECORDER, "--to", str(path), "--", sys.executable, "-c", script,
        stdin=asyncio.subprocess.PIPE,
        stdout=(pipe := os.pipe())[1],
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    for end in pipe:
        os.close(end)
    async with asyncio.timeout(DEADLINE):
        await process.communicate(b"go\n")
    assert process.returncode == 1


async def test_secrets_are_taken_out_unless_told_otherwise(path: Path, tmp_path: Path) -> None:
    script = "import os; print(os.environ['MY_TOKEN'], os.environ['HOME'], 'HULL-7')"
    env = {"MY_TOKEN": "swordfish"}
    async with recording(path, script, "--redact", "HULL-[0-9]", env=env) as process:
        assert (await process.communicate())[0] == b"swordfish /home/annabel HULL-7\n"
    cassette = read(path)
    assert ("out", b"redacted-secret-1 /home/user redacted-match-1") in said(cassette)
    assert (cassette.header.home, cassette.header.redacted) == ("/home/user", True)
    plain = tmp_path / "plain.jsonl"
    async with recording(plain, script, "--no-redact", env=env) as process:
        await process.communicate()
    assert ("out", b"swordfish /home/annabel HULL-7") in said(read(plain))


async def test_the_header_tells_what_ran_where(path: Path) -> None:
    async with recording(path, "pass # sk-ant-12345") as process:
        await process.wait()
    header = read(path).header
    assert header.command == (sys.executable, "-c", "pass # redacted-key-1")
    assert header.cwd == str(Path.cwd())
    assert header.config_dir == "/home/user/.claude"
    assert header.started.startswith("20")


async def test_secrets_in_json_arguments_are_taken_out(path: Path) -> None:
    settings = '{"env":{"SHIP_KEY":"opaque","PORT":"80"}}'
    await run(*RECORDER, "--to", path, "--", "echo", "--settings", settings)
    hidden = '{"env":{"SHIP_KEY":"redacted-secret-1","PORT":"80"}}'
    assert read(path).header.command == ("echo", "--settings", hidden)


async def run(*command: str | Path) -> tuple[int | None, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(DEADLINE):
        output, errors = await process.communicate()
    return process.returncode, output, errors


async def test_a_launcher_records_each_session_beside_the_last(path: Path, tmp_path: Path) -> None:
    launcher = write_launcher(tmp_path, ["echo", "it's"], path)
    for _ in range(2):
        assert await run(launcher, "a b") == (0, b"it's a b\n", b"")
    for each in (path, path.with_name("talk-2.jsonl")):
        assert said(read(each)) == [("out", b"it's a b")]


async def test_a_question_for_the_version_is_no_session(path: Path, tmp_path: Path) -> None:
    launcher = write_launcher(tmp_path, ["echo"], path)
    assert (await run(launcher, "-v"))[1] == b"-v\n"
    with pytest.raises(FileNotFoundError):
        read(path)


async def test_a_cassette_is_replaced_only_when_told_so(path: Path) -> None:
    for word in ("old", "new"):
        await run(*RECORDER, "--to", path, "--overwrite", "--", "echo", word)
    assert said(read(path)) == [("out", b"new")]


async def test_a_command_that_cannot_start_is_named(path: Path) -> None:
    code, _, errors = await run(*RECORDER, "--to", path, "--", "no-such-program")
    assert (code, errors) == (
        127,
        b"pilothouse record: no-such-program: No such file or directory\n",
    )
    assert read(path).entries[-1].code == 127


async def test_a_cassette_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    code, _, errors = await run(*RECORDER, "--to", tmp_path / "no" / "c.jsonl", "--", "true")
    assert code == 127
    assert b"no/c.jsonl: No such file or directory" in errors


async def test_a_session_goes_on_when_its_cassette_cannot(path: Path) -> None:
    # The limit is on files alone: pipes have none.
    command = [*RECORDER, "--to", str(path), "--", sys.executable, "-c", ECHO]
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    lines = [b"%d" % number * 1000 for number in range(100)]
    async with asyncio.timeout(DEADLINE):
        output, errors = await process.communicate(b"\n".join(lines))
    assert output.splitlines() == [b"echo " + line for line in lines]
    assert process.returncode == 0
    assert errors.startswith(b"pilothouse record: the cassette is not complete")
    assert read(path).entries


async def test_there_must_be_something_to_record() -> None:
    code, _, errors = await run(*RECORDER)
    assert code == 2
    assert b"say what to record" in errors
