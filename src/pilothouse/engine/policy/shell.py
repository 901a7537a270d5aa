"""What a policy can know of a shell command without running it.

Two readers with opposite fears stand here. Whoever would allow a command wants every doubt to count
against it: `plain_text` and `joined_texts` answer None unless the text is surely that and no more.
Whoever would stop one wants every doubt to count as a find: `runs_any` looks at all that anything
in the text may run, and at some more.

Which shell will run the text is not known: `sh` is dash here and bash there, and a user may have
zsh. What they read otherwise than each other is read in each way (`&>`), or is no certain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from posixpath import basename
from typing import Final

from .effort import spend

__all__ = ["joined_texts", "plain_text", "runs_any"]

LONGEST: Final = 32_768
"""A longer command is nobody's to allow, and is read only roughly."""
MOST_READ: Final = 4_000_000
"""So many characters a guard compares at most: what is more tangled counts as found."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TOKEN: Final = r"""
      (?P<quoted>   ' [^']* ' )
    | (?P<double>   " [^"\\]* (?: \\. [^"\\]* )* " )
    | (?P<escape>   \\ . )
    | (?P<silent>   (?: (?: (?<![^\s;&|()<>]) (?<!\\\s) [012] )?
                        (?<!\}) (?: >& [12] | (?: >>? | < ) NULL )
                      | &>>? NULL ) (?= [\s;&|] | \Z ) )
    | (?P<redirect> (?: (?<![^\s;&|()<>]) \d+ )?
                    (?: >> | >\| | >& | > | <<< | <<-? | <& | <> | < ) | &>>? )
    | (?P<control>  && | \|\| | \|& | ;(?!;) | \| | & | \n )
    | (?P<expand>   [$`] )
    | (?P<group>    [()] | ;; )
    | (?P<comment>  (?<![^\s;&|()<>]) \# )
    | (?P<blank>    [ \t]+ )
    | (?P<word>     [^'"\\;&|<>()$`\s]+ )
    | (?P<stray>    . )
    """.replace("NULL", "[ ]* /dev/null")


def _compiled(tokens: str) -> re.Pattern[str]:
    return re.compile(tokens, re.VERBOSE | re.DOTALL)


_BASH: Final = _compiled(_TOKEN)
_DASH: Final = _compiled(_TOKEN.replace("&>>?", "(?!)"))
"""Here `&>` ends a command, as `&` does, and the next one begins with a redirection."""
_UNPRINTED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Other shells quote otherwise: PowerShell knows no backslash and takes curly quotes for straight.
_ANY_SHELL: Final = re.compile(r"[;&|<>$`(){}@#%^\n\r\u2018-\u201f]")
# What may come before a program's name: an assignment, and before a redirection the name of a
# variable that takes the file's number.
_LEADING: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=|\{\w+\}\Z")
_INNER: Final = re.compile(r"[\s;&|`]|\$\(")
# It begins where a run of digits or brackets does: tried from within, a long run takes hours.
_REDIRECTED: Final = re.compile(r"(?:(?<!\d)\d+)?&?(?<![<>])[<>]+[&|]?[ \t]*[^\s;&|()<>`]+")
_BRACES: Final = re.compile(r"[{},]|\.\.")
_ROUGHLY: Final = re.compile(r"[;&|\n\r()`{}<>]+")
# `&>` in two lines; or behind a digit, which zsh takes for the number of a file and no argument.
_UNSURE_OPERATOR: Final = re.compile(r"&(?:\\\n)+>|\d(?:\\\n)*&>")

_OPENING: Final = _words("if then elif else while until do ! {")
# Where a program's name is expected these begin something else, in some shell.
_RESERVED: Final = _OPENING - {"!"} | _words(
    "fi done for foreach end select case esac in function coproc repeat noglob nocorrect - always "
    "[[ ]] }"
)
_PREFIXES: Final = _words("! time -p")
_WRAPPERS: Final = _words(
    "sudo doas su env command builtin exec nohup nice ionice time timeout stdbuf setsid unshare "
    "chroot xargs parallel find watch strace busybox script flock caffeinate ssh "
    "coproc function repeat noglob nocorrect -"
)
_NESTING: Final = _WRAPPERS | _words("sh bash zsh dash ksh fish ash eval trap [[ let")
_MOST_WORDS: Final = 200
_DEEPEST: Final = 4


@dataclass(slots=True)
class _Part:
    """One command of several: its text as written, and its words without quotes."""

    written: list[str] = field(default_factory=list[str])
    words: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        return "".join(self.written).strip(" \t")

    @property
    def is_simple(self) -> bool:
        """It begins with the name of a program in every shell."""
        name = next((word for word in self.words if word not in _PREFIXES), "")
        return not (name in _RESERVED or "{" in name or name.startswith(("!", "}")))


@dataclass(slots=True)
class _Scan:
    parts: list[_Part]
    kinds: set[str]


def _scans(command: str) -> Iterator[_Scan]:
    """The command in every way that some shell reads it."""
    yield _scan(command, _BASH)
    if "&>" in command:
        yield _scan(command, _DASH)


def _scan(command: str, tokens: re.Pattern[str]) -> _Scan:
    scan, word, redirected, depth = _Scan([_Part()], set()), None, False, 0
    for token in tokens.finditer(command):
        kind, text = str(token.lastgroup), token[0]
        scan.kinds.add(kind)
        if kind in ("quoted", "double", "escape", "word", "stray", "expand"):
            depth = depth if word is not None else 0
            word = (word or "") + _unquoted(kind, text)
            if kind == "word":
                depth = _depth(text, depth, scan.kinds)
        elif word is not None:
            if not redirected:
                scan.parts[-1].words.append(word)
            word, redirected = None, False
        if kind in ("control", "group"):
            scan.parts.append(_Part())
        elif kind != "silent":
            scan.parts[-1].written.append(text)
        redirected = redirected or kind == "redirect"
    if word is not None and not redirected:
        scan.parts[-1].words.append(word)
    return scan


def _depth(text: str, depth: int, kinds: set[str]) -> int:
    """How deep in braces a word is after this piece of it. Tells where it becomes several words."""
    for mark in _BRACES.findall(text):
        depth = depth + 1 if mark == "{" else max(0, depth - 1) if mark == "}" else depth
        if depth and mark in (",", ".."):
            kinds.add("braces")
    return depth


def _unquoted(kind: str, text: str) -> str:
    match kind:
        case "quoted":
            return text[1:-1]
        case "double":
            return re.sub(r"\\(?:\n|([\"\\$`]))", r"\1", text[1:-1])
        case "escape":
            return "" if text[1] == "\n" else text[1]
        case _:
            return text


def _doubtful(command: str, *, shell: bool) -> bool:
    if len(command) > LONGEST or _UNPRINTED.search(command):
        return True
    return not shell and _ANY_SHELL.search(command) is not None


_SURE: Final = frozenset({"quoted", "double", "escape", "word", "blank"})
_JOINED: Final = _SURE | {"control", "silent"}
_READ: Final = _JOINED | {"redirect"}


def _expands(command: str) -> bool:
    """Something in double quotes is not what it seems to be."""
    doubles = (token[0] for token in _BASH.finditer(command) if token.lastgroup == "double")
    return any(re.search(r"(?<!\\)(?:\\\\)*[$`]", text) for text in doubles)


def plain_text(command: str, *, shell: bool = True) -> str | None:
    """The command, if it is a single one: no operator, expansion, redirection, comment, newline.

    Neither is what a shell has its own word for, or makes several words of.
    `shell` says that it is for a POSIX shell; for another one quotes are not trusted.
    """
    if "\n" in command or _doubtful(command, shell=shell):
        return None
    scan = _scan(command, _BASH)
    if not scan.kinds <= _SURE or _expands(command) or not scan.parts[0].is_simple:
        return None
    return command.strip(" \t") or None


def joined_texts(command: str, *, shell: bool = True) -> list[str] | None:
    """The single commands it is joined of by `&&`, `||`, `;`, `|`, `&` and newlines, if no more.

    What goes to /dev/null or to the other output is left out.
    """
    if _doubtful(command, shell=True) or (not shell and _doubtful(command, shell=False)):
        return None
    if _UNSURE_OPERATOR.search(command) or _expands(command):
        return None
    texts: list[str] = []
    for scan in _scans(command):
        if not scan.kinds <= _JOINED or not all(part.is_simple for part in scan.parts):
            return None
        texts += [text for part in scan.parts if (text := part.text)]
    return texts or None


def runs_any(command: str, wanted: Callable[[str], bool]) -> bool:
    """Whether any command in the text, however it is written, may be a wanted one."""
    if wanted(command) or wanted(command.strip()):
        return True
    seen, left = set[str](), MOST_READ
    for text in _guarded(command, 0):
        left -= len(text) + 32
        spend(4 * (len(text) + 32))
        if left < 0 or (text not in seen and wanted(text)):
            return True
        seen.add(text)
    return False


def _guarded(command: str, depth: int) -> Iterator[str]:
    if len(command) <= LONGEST:
        kinds = set[str]()
        for scan in _scans(command):
            kinds |= scan.kinds
            for part in scan.parts:
                yield part.text
                yield from _spellings(part.words, depth)
        if kinds <= _READ and not _expands(command) and "\n" not in command:
            return
    # Quotes cannot be trusted across here-documents, comments and substitutions.
    bare = re.sub(r"['\"$]|\\(?!\n)", "", command.replace("\\\n", " "))
    apart = bare.replace("&>", "& >")
    for text in dict.fromkeys((bare, _REDIRECTED.sub(" ", bare), _REDIRECTED.sub(" ", apart))):
        for piece in _ROUGHLY.split(text):
            yield from _spellings(piece.split(), depth)


def _spellings(words: list[str], depth: int) -> Iterator[str]:
    start = 0
    while start < len(words) and (words[start] in _OPENING or _LEADING.match(words[start])):
        start += 1
    words = words[start:]
    if not words:
        return
    yield from _named(words)
    program = basename(words[0])
    if program in _WRAPPERS:
        for index in range(1, min(len(words), _MOST_WORDS)):
            yield from _named(words[index:])
    if depth < _DEEPEST and program in _NESTING:
        for word in words[1:_MOST_WORDS]:
            if _INNER.search(word):
                yield from _guarded(word, depth + 1)
        if program == "eval":
            yield from _guarded(" ".join(words[1:]), depth + 1)


def _named(words: list[str]) -> Iterator[str]:
    yield " ".join(words)
    if "/" in words[0]:
        yield " ".join([basename(words[0]), *words[1:]])
    if "{" in words[0] and (made := re.sub(r"[{},]+", " ", words[0]).split()):
        yield from _named([*made, *words[1:]])
