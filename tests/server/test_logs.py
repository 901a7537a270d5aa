"""The server's log lines."""

from __future__ import annotations

import gc
import io
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import ReferenceType, ref

import pytest

from pilothouse.server import logs
from pilothouse.server.logs import LOG_NAME, REDACTED, Redaction, Repeats, set_up

TOKEN = "t0ken-of-the-server"


class Log:
    """A logger of its own whose lines can be read back."""

    def __init__(self, stream: io.StringIO, handler: logging.Handler) -> None:
        self.stream = stream
        self.handler = handler
        self.logger = logging.getLogger("pilothouse.test_logs")

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def log() -> Iterator[Log]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    env = {"OPENAI_API_KEY": "value-of-a-key", "HOME": "/home/ada-lovelace", "MY_TOKEN": "short"}
    try:
        yield Log(stream, set_up("info", Redaction([TOKEN], env), stream))
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def test_a_line_is_an_object_with_what_was_given_besides(log: Log) -> None:
    log.logger.info("a %s line", "plain", extra={"address": "http://x", "count": 3})
    (line,) = log.lines()
    assert line.pop("at").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "pilothouse.test_logs",
        "message": "a plain line",
        "address": "http://x",
        "count": 3,
    }


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "shape", "is_text"),
    [
        (Terminal, "auto", True),
        (Terminal, "json", False),
        (io.StringIO, "auto", False),
        (io.StringIO, "text", True),
    ],
)
def test_a_person_at_a_terminal_reads_words(
    log: Log, stream: type[io.StringIO], shape: str, is_text: bool
) -> None:
    written = stream()
    set_up("info", Redaction(["a-secret-word"]), written, shape=shape)
    logging.getLogger("x").warning("it says %s", "a-secret-word", extra={"port": 7})
    line = written.getvalue()
    assert "a-secret-word" not in line
    assert line.startswith("{") is not is_text
    assert line.endswith("WARNING it says [redacted] port=7\n") is is_text


def test_a_warning_that_comes_again_and_again_is_written_once_and_counted(log: Log) -> None:
    for number in range(1000):
        log.logger.warning("no room for <socket fd=%d at 0x%x>", number, number)
    log.logger.warning("another one")
    assert [line["message"] for line in log.lines()] == [
        "no room for <socket fd=0 at 0x0>",
        "another one",
    ]
    log.handler.close()
    assert log.lines()[2]["message"].endswith("at 0x0> … and 999 more like it")
    assert len(log.lines()) == 3


def test_the_count_is_told_after_a_while_and_the_next_one_is_written(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(3):
        log.logger.error("failed", extra={"run": "a"})
    now += logs.REPEATS_S
    log.logger.error("failed", extra={"run": "a"})
    told = [(line["message"], line["run"]) for line in log.lines()]
    assert told == [("failed", "a"), ("failed … and 2 more like it", "a"), ("failed", "a")]


def test_what_is_about_something_else_is_no_repetition(log: Log) -> None:
    for kind in (ValueError, KeyError):
        for run in ("a", "b"):
            try:
                raise kind(run)
            except kind:
                log.logger.exception("failed", extra={"run": run})
    for _ in range(2):
        log.logger.info("a relay is connected")
    assert len(log.lines()) == 6


def test_only_so_many_warnings_are_remembered() -> None:
    repeats = Repeats(most=2)
    told: list[str] = []
    for text in ("one", "one", "two", "three", "four", "one"):
        told += [each.getMessage() for each in repeats.ended()]
        told += [text] if repeats.passes(record(text)) else []
    assert told == ["one", "two", "three", "one … and 1 more like it", "four", "one"]


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")


def record(message: str, *args: object, **given: object) -> logging.LogRecord:
    """For this handler alone: those of pytest keep what they are given, and raise."""
    plain = {"msg": message, "args": args, "levelno": logging.WARNING, "levelname": "WARNING"}
    return logging.makeLogRecord({**plain, **given})


def test_whoever_logs_does_not_fail_by_it(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.handler.handle(record("%d connections", "many"))
    log.handler.handle(record("odd", odd=Unprintable()))
    log.handler.handle(record("and on"))
    assert [line["message"] for line in log.lines()] == ["and on"]
    assert "not to be shown" in capsys.readouterr().err


def test_what_an_error_was_raised_with_is_not_kept(log: Log) -> None:
    class Large:
        pass

    def fail() -> ReferenceType[Large]:
        large = Large()
        try:
            raise ValueError
        except ValueError:
            log.handler.handle(record("failed", exc_info=sys.exc_info()))
        return ref(large)

    kept = fail()
    gc.collect()
    assert "ValueError" in log.lines()[0]["error"]
    assert kept() is None


def test_what_is_below_the_level_is_not_written(log: Log) -> None:
    log.logger.debug("quiet")
    assert log.lines() == []


def test_a_text_of_many_lines_is_one_line(log: Log) -> None:
    log.logger.info("one\ntwo")
    assert log.lines()[0]["message"] == "one\ntwo"


SECRETS = [
    ("the token is %s", TOKEN),
    ("Authorization: Bearer %s", "abcdefghijkl"),
    ("authorization: %s", "Basic QWxhZGRpbg=="),
    ("key %s was used", "sk-ant-api03-abcdefgh"),
    ("the variable holds %s", "value-of-a-key"),
    ("GET /api/events?token=%s", "abcdefghijkl"),
    ("GET https://%s@example.com", "ada:lovelace"),
    ("open http://127.0.0.1:8137/#enter=%s", "aB3_-xyz"),
    ("it sent theme=dark; pilothouse-8137=%s", "aB3_-xyz"),
]


@pytest.mark.parametrize(("message", "secret"), SECRETS)
def test_a_secret_in_a_message_is_taken_out(log: Log, message: str, secret: str) -> None:
    log.logger.info(message, secret)
    assert secret not in log.stream.getvalue()
    assert REDACTED in log.stream.getvalue()


@pytest.mark.parametrize(("message", "secret"), SECRETS)
def test_a_secret_in_an_exception_or_beside_the_message_is_taken_out(
    log: Log, message: str, secret: str
) -> None:
    try:
        raise ValueError(message % secret)
    except ValueError:
        log.logger.exception("failed", extra={"seen": {"deep": [message % secret]}})
    (line,) = log.lines()
    assert "ValueError" in line["error"]
    assert secret not in log.stream.getvalue()


def test_what_is_named_as_a_secret_is_taken_out_whatever_it_is(log: Log) -> None:
    named = {"Authorization": "x", "api_key": "y", "session_token": "z", "tokens": "5"}
    log.logger.info("m", extra={"headers": named})
    told = log.lines()[0]["headers"]
    assert told == {
        "Authorization": REDACTED,
        "api_key": REDACTED,
        "session_token": REDACTED,
        "tokens": "5",
    }


def test_what_is_no_secret_stays(log: Log) -> None:
    log.logger.info("a short answer for /home/ada-lovelace, 15 tokens, see https://x.example/a@b")
    assert REDACTED not in log.stream.getvalue()


# Writes lines to its stderr, and at last something that is no line of the log's.
LOGS = """
import logging, pathlib, subprocess, sys
from pilothouse.server import logs
logs.LONGEST_LOG = 20_000
logs.set_up("info", logs.Redaction(), file=pathlib.Path(sys.argv[1]))
for number in range(1000):
    logging.info("line %d", number)
print("printed", flush=True)
subprocess.run(["sh", "-c", "echo of a child >&2"])
"""


def run_logging(log: Path, stderr: Path) -> None:
    with stderr.open("ab") as output:
        subprocess.run(
            [sys.executable, "-c", LOGS, str(log)], stdout=output, stderr=output, check=True
        )


def test_a_log_has_a_length_and_everything_that_is_written_goes_to_the_new_one(
    tmp_path: Path,
) -> None:
    log = tmp_path / LOG_NAME
    run_logging(log, log)
    aside = log.with_suffix(".log.1")
    assert {each.name for each in tmp_path.iterdir()} == {log.name, aside.name}
    assert max(log.stat().st_size, aside.stat().st_size) < 21_000
    *lines, printed, of_a_child = (aside.read_text() + log.read_text()).splitlines()
    assert (printed, of_a_child) == ("printed", "of a child")
    numbers = [int(json.loads(line)["message"].split()[1]) for line in lines]
    assert numbers == list(range(numbers[0], 1000))
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_not_the_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / LOG_NAME
    log.write_text("an older server's")
    run_logging(log, tmp_path / "elsewhere")
    assert log.read_text() == "an older server's"
    assert len((tmp_path / "elsewhere").read_text().splitlines()) == 1002
