"""Takes a shell command apart, as far as its permission can be judged by its text.

This is no shell grammar. Simple commands, their words, redirections, pipes, lists, `if` and `for`
are understood; whatever else there is becomes an obstacle, for which the CLI asks in any case.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

__all__ = ["Part", "ShellScript", "read_script"]

_UNCHECKED = "{} in this command can't be checked before it runs"
_OBSTACLES: tuple[tuple[str, str], ...] = (
    (r"\s*\(\(", _UNCHECKED.format("A group in braces or double parentheses")),
    (r"\s*\{\s", _UNCHECKED.format("A group in braces or double parentheses")),
    (r"\s*(?:function\s+\w+|\w+\s*\(\))", _UNCHECKED.format("A function definition")),
    (r"\s*case\s", _UNCHECKED.format("A case statement")),
    (r"\s*(?:while|until)\b.*\bdone\s*<", _UNCHECKED.format("A while or until loop")),
)
_HEREDOC = re.compile(
    r"<<-?[ \t]*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)(?P<tail>[^\n]*)(?:\n.*)?$", re.DOTALL
)
# The usual way to give a program a text of several lines: its words are known.
_QUOTED_TEXT = re.compile(r"\"\$\(cat <<'(\w+)'\n.*?\n\1\n\s*\)\"", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_KNOWN_VARIABLES = ("HOME",)
_KEYWORDS = {"if", "then", "else", "elif", "do", "while", "until", "!"}
_ENDS = {"fi", "done"}
_OPERATORS = ("&&", "||", "|&", ";;", "|", ";", "&", "\n")


class Part(Struct, kw_only=True):
    """One simple command of a script."""

    words: list[str] = field(default_factory=list[str])
    raw: list[str] = field(default_factory=list[str])
    """The words as they are written, quotes and all."""
    environment: list[str] = field(default_factory=list[str])
    redirections: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Operator and target."""
    end: str = ""
    """The operator after it."""

    @property
    def text(self) -> str:
        """The command without its redirections."""
        return " ".join([*self.environment, *self.raw])

    @property
    def name(self) -> str:
        """The program."""
        return self.words[0] if self.words else ""


class ShellScript(Struct, kw_only=True):
    """A command, taken apart; an obstacle says why that was not possible."""

    text: str
    parts: list[Part] = field(default_factory=list[Part])
    obstacle: str | None = None
    grouped: bool = False
    """Runs in a subshell of its own: `(ls)`."""

    @property
    def piped(self) -> bool:
        """Whether commands are joined by pipes."""
        return any(part.end in ("|", "|&") for part in self.parts)


class _Unreadable(Exception):
    pass


def read_script(text: str) -> ShellScript:
    """Take a command apart."""
    body = _QUOTED_TEXT.sub('"text"', text)
    heredoc = _HEREDOC.search(body)
    if heredoc and not heredoc["quote"]:
        return ShellScript(
            text=text, obstacle="Heredoc with unquoted delimiter undergoes shell expansion"
        )
    if heredoc and ">" in heredoc["tail"]:
        return ShellScript(text=text, obstacle=_UNCHECKED.format("A file redirect"))
    body = body[: heredoc.start()] + heredoc["tail"] if heredoc else body
    if re.match(r"\s*\([^(]", body):
        return ShellScript(text=text, grouped=True)
    for pattern, reason in _OBSTACLES:
        if re.match(pattern, body, re.DOTALL):
            return ShellScript(text=text, obstacle=reason)
    try:
        parts = _Reader(body, text).read()
    except _Unreadable as error:
        return ShellScript(text=text, obstacle=str(error))
    return ShellScript(text=text, parts=parts)


class _Reader:
    """Walks over the characters once."""

    def __init__(self, body: str, whole: str) -> None:
        self.body = body
        self.at = 0
        self.parts: list[Part] = []
        self.part = Part()
        self.assigned = set(re.findall(r"(?:^|[;&|]\s*)([A-Za-z_]\w*)=", whole))

    def read(self) -> list[Part]:
        while self.at < len(self.body):
            self._step()
        self._close("")
        return self.parts

    def _step(self) -> None:
        rest = self.body[self.at :]
        redirection = re.match(r"(\d*)(>>|>&|>\||&>>|&>|>|<<<|<)(&?)", rest)
        operator = next((sign for sign in _OPERATORS if rest.startswith(sign)), None)
        if rest[0] in " \t":
            self.at += 1
        elif rest[0] == "#":
            self.at += len(rest.partition("\n")[0])
        elif rest.startswith(("<(", ">(")):
            raise _Unreadable(_UNCHECKED.format("A command used as a file"))
        elif redirection and (not redirection[1] or self._starts_word()):
            self._redirect(redirection)
        elif operator is not None:
            self.at += len(operator)
            self._close(operator)
        elif rest[0] in "()":
            raise _Unreadable(_UNCHECKED.format("A group in parentheses"))
        else:
            self._take_word()

    def _starts_word(self) -> bool:
        return self.at == 0 or self.body[self.at - 1] in " \t"

    def _redirect(self, found: re.Match[str]) -> None:
        self.at += found.end()
        if found[3] or found[2] == ">&":
            number = re.match(r"\s*\d+|-", self.body[self.at :])
            if number:
                self.at += number.end()
                return
        while self.at < len(self.body) and self.body[self.at] in " \t":
            self.at += 1
        value, raw = self._word()
        if "$" in raw and value != raw:
            raise _Unreadable(
                "Redirect target concatenation contains $/` — unanalyzable gap or substitution"
            )
        self.part.redirections.append((found[2], value))

    def _take_word(self) -> None:
        value, raw = self._word()
        if not self.part.words and (raw in _KEYWORDS or raw in _ENDS):
            return
        if not self.part.words and raw == "for":
            # The list of a `for` is data, not a command.
            self.at = (
                self.body.find(";", self.at) if ";" in self.body[self.at :] else len(self.body)
            )
        elif not self.part.words and _ASSIGNMENT.match(raw):
            self.part.environment.append(raw)
        else:
            self.part.words.append(value)
            self.part.raw.append(raw)

    def _close(self, operator: str) -> None:
        part = self.part
        if part.words or part.environment or part.redirections:
            part.end = operator
            self.parts.append(part)
        self.part = Part()

    def _word(self) -> tuple[str, str]:
        start, value = self.at, ""
        while self.at < len(self.body):
            sign = self.body[self.at]
            if sign in " \t\n;|&<>()":
                break
            value += self._piece(sign)
        raw = self.body[start : self.at]
        if self.at == start:
            raise _Unreadable("Parse error")
        if re.search(r"\{[^{}]*,[^{}]*\}", raw) and raw[0] not in "'\"":
            raise _Unreadable("Brace expansion")
        return value, raw

    def _piece(self, sign: str) -> str:
        if sign == "'":
            return self._single()
        if sign == '"':
            return self._double()
        if sign == "\\":
            return self._escape()
        if sign in "$`":
            return self._expansion(quoted=False)
        self.at += 1
        return sign

    def _single(self) -> str:
        end = self.body.find("'", self.at + 1)
        end = len(self.body) if end < 0 else end
        value = self.body[self.at + 1 : end]
        self.at = end + 1
        return value

    def _double(self) -> str:
        self.at += 1
        value = ""
        while self.at < len(self.body) and self.body[self.at] != '"':
            if self.body[self.at] in "$`":
                value += self._expansion(quoted=True)
                continue
            if self.body[self.at] == "\\":
                self.at += 1
            value += self.body[self.at : self.at + 1]
            self.at += 1
        if self.at >= len(self.body):
            raise _Unreadable("Parse error")
        self.at += 1
        return value

    def _escape(self) -> str:
        following = self.body[self.at + 1 : self.at + 2]
        if following in ("", "\n"):
            if not self.body[self.at + 1 :].strip():
                raise _Unreadable("Parse error")
            self.at += 2
            return ""
        if following in " \t":
            raise _Unreadable("Contains backslash-escaped whitespace")
        self.at += 2
        return following

    def _expansion(self, *, quoted: bool) -> str:
        rest = self.body[self.at :]
        arithmetic = re.match(r"\$\(\([\d\s+*/%-]*\)\)", rest)
        name = re.match(r"\$(\w+|[?$!#@*-])", rest)
        if arithmetic:
            self.at += arithmetic.end()
            return "0"
        if rest.startswith(("$(", "`")):
            raise _Unreadable(_UNCHECKED.format("Quoted text" if quoted else "A nested command"))
        if rest.startswith("${"):
            raise _Unreadable(_UNCHECKED.format("A variable in braces"))
        if name is None:
            self.at += 1
            return "$"
        if name[1] not in _KNOWN_VARIABLES:
            what = "A variable set" if name[1] in self.assigned else "A variable"
            raise _Unreadable(_UNCHECKED.format(what))
        self.at += name.end()
        return "~"
