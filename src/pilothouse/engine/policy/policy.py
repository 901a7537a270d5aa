"""Rules that answer questions before a person is asked. See docs/howto-policy.md."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pilothouse.api.answers import Allow, ApprovePlan
from pilothouse.api.questions import Question
from pilothouse.api.results import DryRun, DryRunLine, PolicyReport
from pilothouse.errors import NotNow, PolicyError, UsageError
from pilothouse.folders import replace_private

from .effort import TooMuch, bounded
from .rule_file import parse_rules
from .rules import JudgedAsk, Rule, Verdict

__all__ = [
    "Decision",
    "JudgedAsk",
    "Policy",
    "PolicyError",
    "PolicyFile",
    "Rule",
    "Verdict",
    "dry_run",
    "read_policy",
]

log = logging.getLogger("pilothouse")

LARGEST: Final = 1_048_576
# Within this time a file may be written twice and keep its time and size: it is read again.
_FRESH_NS: Final = 2_000_000_000

_Seen = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict and the rule that gave it; without a rule nothing matched."""

    verdict: Verdict
    rule: str | None = None
    reason: str = ""
    """The reason that the model reads of a denial."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Ordered rules. The first that matches decides; if none does, a person is asked."""

    rules: tuple[Rule, ...] = ()
    source: str = "policy"
    text: str = ""

    @classmethod
    def parse(cls, text: str, source: str = "policy", *, home: Path | None = None) -> Policy:
        """Read rules; PolicyError has the place where they are wrong. `home` is what `~` means."""
        # Each character has a byte or more: what is far too large is not even encoded.
        if len(text) > LARGEST or len(text.encode(errors="surrogatepass")) > LARGEST:
            raise _too_large(source)
        return cls(parse_rules(text, source, home), source, text)

    def decide(self, ask: JudgedAsk) -> Decision:
        """Never raises. Looks at the disk only to follow links in paths.

        What takes too much work is asked. It is still work of up to a second: for a thread.
        """
        with bounded():
            rule = self._first(ask)
        if rule is None:
            return Decision("ask")
        if rule.action == "deny":
            return Decision("deny", rule.name, rule.reason or f"Denied by the policy: {rule.name}.")
        return Decision(rule.action, rule.name)

    def _first(self, ask: JudgedAsk) -> Rule | None:
        for rule in self.rules:
            try:
                if rule.matches(ask):
                    return rule
            except TooMuch:
                message = "%s:%d: rule %r takes too much work for this %s: asking a person"
                log.warning(message, self.source, rule.line, rule.name, ask.tool_name)
                return None
        return None


def _too_large(source: str) -> PolicyError:
    return PolicyError(f"{source}: is larger than {LARGEST} bytes, the most a policy may have")


# The file


def read_policy(path: Path, *, home: Path | None = None) -> Policy:
    """Read a file as a `PolicyFile` does. PolicyError is what that would refuse it for."""
    try:
        text, _ = _read(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    return Policy.parse(text, str(path), home=home)


def _unreadable(path: Path, error: OSError) -> PolicyError:
    return PolicyError(f"{path}: cannot be read: {error.strerror}")


class PolicyFile:
    """A file of rules, or none.

    A file that is wrong, unsafe or gone leaves the last good rules in force; `error` is why.
    Before there was a good one there are no rules: everything is asked.
    Several threads may refresh it.
    """

    def __init__(self, path: Path | None, *, home: Path | None = None) -> None:
        self.path = path
        self.policy = Policy(source=str(path) if path else "policy")
        self.error: str | None = None
        self._home = home
        self._refreshing = threading.Lock()
        self._loaded_at: int | None = None
        self._seen: _Seen | None = None
        self._tried: tuple[str, str | None] | None = None
        self.refresh()

    def refresh(self) -> bool:
        """Reads the file if it changed; true if other rules are in force now."""
        if self.path is None:
            return False
        with self._refreshing:
            return self._refresh(self.path)

    def parse(self, text: str) -> Policy:
        """Other rules as if they stood in this file, `~` being the same. Raises PolicyError."""
        return Policy.parse(text, home=self._home)

    def save(self, text: str, replaces: str | None) -> None:
        """Write other rules to the file, in force at once; `replaces` is what must be there now.

        Raises PolicyError for rules that are wrong, and NotNow where the file has another text.
        """
        if self.path is None:
            raise UsageError(
                "there is no policy file: set `policy_file` and start the server again"
            )
        self.parse(text)
        with self._refreshing:
            if replaces is not None and _text_in(self.path) != replaces:
                raise NotNow(
                    f"{self.path} has been changed meanwhile",
                    advice="look at it, and save again from its text of now",
                )
            with suppress(FileNotFoundError):
                # What would not be read back is not written.
                _check_folder(self.path)
            try:
                # A link stays one: whoever keeps the file elsewhere finds it changed there.
                replace_private(self.path.resolve(), text.encode())
            except OSError as error:
                raise PolicyError(f"{self.path} cannot be written: {error.strerror}") from None
            self._refresh(self.path)
            if self.policy.text != text:
                raise PolicyError(self.error or f"{self.path}: has been changed meanwhile")

    def is_absent(self) -> bool:
        """Return whether there are no rules and no file, so that everything is asked."""
        return not self.policy.rules and not (self.path and os.access(self.path, os.F_OK))

    def decide(self, ask: JudgedAsk) -> Decision:
        """By the rules as they stand in the file now. For a thread: it reads and compares."""
        self.refresh()
        return self.policy.decide(ask)

    def _refresh(self, path: Path) -> bool:
        try:
            seen = _seen(path.stat())
            return (seen is None or seen != self._seen) and self._load(path)
        except FileNotFoundError:
            self._gone(path)
        except OSError as error:
            self._refuse(str(_unreadable(path, error)))
        except PolicyError as error:
            self._refuse(str(error))
        return False

    def report(self) -> PolicyReport:
        return PolicyReport(
            path=None if self.path is None else str(self.path),
            rules=len(self.policy.rules),
            error=self.error,
            loaded_at=self._loaded_at,
            text=self.policy.text,
        )

    def _load(self, path: Path) -> bool:
        self._seen = None
        text, self._seen = _read(path)
        if self._tried is None or self._tried[0] != text:
            return self._take(text, path)
        if self._tried[1] is not None:
            raise PolicyError(self._tried[1])
        self._mended()
        return False

    def _take(self, text: str, path: Path) -> bool:
        before = self.policy.text
        try:
            self.policy = Policy.parse(text, str(path), home=self._home)
        except PolicyError as error:
            self._tried = (text, str(error))
            raise
        self._tried = (text, None)
        self._mended()
        self._loaded_at = time.time_ns() // 1_000_000
        return text != before

    def _refuse(self, message: str) -> None:
        kept = "its last good rules stay in force" if self._loaded_at else "everything is asked"
        told = f"{message} ({kept})"
        if told != self.error:
            log.warning("the policy cannot be used: %s", told)
        self.error = told

    def _mended(self) -> None:
        if self.error is not None:
            log.info("the policy can be used again: %s", self.path)
        self.error = None

    def _gone(self, path: Path) -> None:
        self._seen = None
        if self._loaded_at is not None:
            self._refuse(f"{path}: is gone")
        else:
            self.error = None


def _seen(found: os.stat_result) -> _Seen | None:
    """Return what differs between two states of a file; None for one that was only just written."""
    if abs(time.time_ns() - found.st_mtime_ns) < _FRESH_NS:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)


def _text_in(path: Path) -> str:
    try:
        return _read(path)[0]
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unreadable(path, error) from None


def _read(path: Path) -> tuple[str, _Seen | None]:
    # Without O_NONBLOCK a named pipe would hold up everybody until somebody writes to it.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        _check(path, found)
        data = os.read(file, LARGEST + 1)
    finally:
        os.close(file)
    if len(data) > LARGEST:
        raise _too_large(str(path))
    try:
        return data.decode(), _seen(found)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PolicyError(f"{path}:{line}: is not UTF-8") from None


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise PolicyError(f"{path}: is not a file")
    if found.st_uid not in (0, os.geteuid()):
        raise PolicyError(f"{path}: belongs to somebody else; a policy must be yours or root's")
    if found.st_mode & 0o022:
        raise PolicyError(f"{path}: can be written by others; run: chmod go-w '{path}'")
    _check_folder(path)


def _check_folder(path: Path) -> None:
    folder = path.resolve().parent
    mode = folder.stat().st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:
        raise PolicyError(
            f"{path}: its folder can be written by others; run: chmod go-w '{folder}'"
        )


# The dry run


def dry_run(questions: Sequence[Question], before: Policy, after: Policy) -> DryRun:
    """Past questions against a changed policy: those with another outcome than they had."""
    lines = [_compare(each, before, after) for each in questions]
    return DryRun(examined=len(lines), differ=[line for line in lines if line.before != line.after])


def _compare(question: Question, before: Policy, after: Policy) -> DryRunLine:
    ask = JudgedAsk.of(question)
    was, would = _recorded(question), after.decide(ask)
    now = before.decide(ask)
    return DryRunLine(
        question_id=question.id,
        session_id=question.session_id,
        tool_name=ask.tool_name,
        title=question.title,
        before=was,
        after=would.verdict,
        before_rule=question.rule or (now.rule if now.verdict == was else None),
        after_rule=would.rule,
    )


def _recorded(question: Question) -> Verdict:
    """What the policy of that time made of it; a person was asked unless it answered."""
    if question.answered_by != "policy" or question.answer is None:
        return "ask"
    return "allow" if isinstance(question.answer, Allow | ApprovePlan) else "deny"
