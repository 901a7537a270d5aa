"""The programs the judge knows: which only read, which write files, which wrap others."""

from __future__ import annotations

__all__ = [
    "EVALUATORS",
    "PATHLESS",
    "PATTERN_FIRST",
    "READERS",
    "SAFE_VARIABLES",
    "SUBCOMMANDS",
    "VERBS",
    "WRAPPERS",
    "WRITERS",
    "names",
]


def names(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


READERS = names("""
    arch base64 basename cat cd column comm cmp cut date df diff dirname docker du echo egrep expr
    false fd fgrep file find fmt fold free git grep groups head help hexdump history hostname id ip
    jq locale ls lsof man md5sum netstat nl node nproc od paste pgrep printf ps pwd python python3
    readlink realpath rev rg sed seq sha1sum sha256sum sleep sort ss stat strings tac tail test tr
    tree true type uname uniq uptime wc which whoami xargs [ [[
    """)
"""Programs that may run unasked, as far as their arguments are harmless."""

SUBCOMMANDS: dict[str, frozenset[str]] = {
    "docker": names("images inspect logs ps"),
    "git": names("""
        blame cat-file describe diff grep log ls-files reflog rev-parse shortlog show status
        """),
    "node": frozenset(("--version", "-v")),
    "python": frozenset(("--version",)),
    "python3": frozenset(("--version",)),
}
"""The harmless first arguments of programs that have harmful ones too."""

VERBS = {
    "cat": "concatenate files from",
    "cd": "change directories to",
    "diff": "compare files from",
    "file": "examine file types in",
    "find": "search files in",
    "grep": "search for patterns in files from",
    "head": "read the beginning of files from",
    "ls": "list files in",
    "sed": "edit files in",
    "sort": "sort contents of files from",
    "stat": "read file stats from",
    "wc": "count lines/words/bytes in files from",
}
"""What a program may do only in the working directories; those without a verb read files there."""

PATTERN_FIRST = names("egrep fgrep grep jq rg sed")
"""Programs whose first plain argument is no path."""

PATHLESS = names("""
    arch basename date df dirname docker echo expr false free git groups help history hostname id
    ip locale lsof man netstat node nproc pgrep printf ps pwd python python3 seq sleep ss test tr
    true type uname uptime which whoami xargs [ [[
    """)
"""Readers whose arguments are not taken for paths."""

WRITERS = names("cp mkdir mv rm rmdir sed tee touch")

WRAPPERS = names("""
    ash bash builtin command csh dash doas env exec fish ksh nice nohup pkexec pwsh sh stdbuf sudo
    time timeout xargs zsh
    """)
"""Programs that run others: no rule is suggested for their first word."""

EVALUATORS = names(". alias eval exec hash let source trap")

SAFE_VARIABLES = names("""
    CARGO_TERM_COLOR CHARSET CI COLORTERM COLUMNS FORCE_COLOR GO111MODULE GOARCH GOEXPERIMENT GOOS
    LANG LANGUAGE LC_ALL LC_CTYPE LC_TIME LINES LS_COLORS NODE_ENV NO_COLOR PYTHONDONTWRITEBYTECODE
    PYTHONUNBUFFERED PYTEST_DEBUG RUST_BACKTRACE RUST_LOG TERM TIME_STYLE TZ
    """)
"""Variables that may be set in front of a command without changing what it is."""
