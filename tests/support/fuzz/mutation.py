"""Hostile lines, made of real ones: what a CLI could write that no CLI should.

    mutated(Random(7))   one line, without its newline

The seeds are recorded lines of real CLIs. Their text is edited in place, so that everything around
an edit stays as a CLI writes it: key order, spaces, escapes. The same seed gives the same line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from tests.support.places import DATA

DEPTHS = (60, 101, 300, 900, 960, 990, 1000, 1500, 5000, 20_000)
NUMBERS = (
    b"-1 0 -0 -0.0 1e-400 0.1 2147483648 4294967296 9007199254740993 9223372036854775807"
    b" 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615"
    b" 18446744073709551616 10000000000000000000 1.7e308 -1.7e308 1e400 -1e400 NaN Infinity"
    b" -Infinity 1E5 01 1. +1 0x10 1_000"
).split() + [b"1" + b"0" * digits for digits in (310, 4000, 10_000)]
STRINGS = [
    *(rb"\ud83d", rb"\ude00", rb"\ude00\ud83d", rb"a\ud83d", rb"\ud83dz", rb"\ud83d\ude00"),
    *(rb"\ud83d\ud83d\ude00", rb"\udcff\udcfe", rb"\uffff\ufeff", "\u2028\u2029\ufeff".encode()),
    *(rb"\u0000", rb"a\u0000b", rb"\u0000\u0001\u001b[2J\u007f\u0085", rb"\r\n\t\b\f", rb"\r\r"),
    *(
        b"../../x",
        b"/tmp/pilothouse-astray",
        b"..",
        b"/",
        b"~",
        b"file:///x",
        b"a/b\\\\c",
        b"%2e%2e%2f",
    ),
    *(b"", b" ", b"null", b"NaN", b"true", b"0", b"-1", b"9" * 400, b"type", b"__proto__"),
    *("\U0001f6a2".encode() * 300, "e\u0301\u202e\u200b".encode(), "\U0010ffff".encode()),
    *(b"bypassPermissions", b"success", b"idle", b"completed", b"<synthetic>", b"/compact"),
    b"[Request interrupted by user]",
]
WRONG = (
    b'null true false 0 1.5 "" [] {} [null] [[]] [{}] {"":0} ["x"] [1,"x",null] {"a":{}}'.split()
)
TELLING = frozenset(
    b"session_id uuid request_id tool_use_id task_id id parent_tool_use_id user_message_uuid"
    b" user_message_uuids command_uuid new_conversation_id type subtype state status patch origin"
    b" usage input_tokens output_tokens cache_read_input_tokens cache_creation_input_tokens"
    b" total_cost_usd modelUsage model_usage_since_last_result costUSD contextWindow num_turns"
    b" duration_ms pre_tokens post_tokens compact_metadata permission_denials errors result"
    b" terminal_reason is_error isReplay message content model permissionMode cwd tools"
    b" slash_commands mcp_servers claude_code_version title attempt max_retries retry_delay_ms"
    b" error error_status rate_limit_info tasks task_type description ambient is_backgrounded name"
    b" input tool_name questions options plan permission_suggestions requested_schema url mode"
    b" mcp_server_name decision_reason blocked_path request response event delta text".split()
)
"""The members that something in the engine looks at."""
UNRECORDED = (
    b'{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1794770606,'
    b'"rateLimitType":"five_hour","utilization":0.91},"uuid":"5d0a6f0e","session_id":"678f01dc"}',
    b'{"type":"prompt_suggestion","suggestion":"go on","uuid":"5d0a6f0e","session_id":"678f01dc"}',
    b'{"type":"active_goal","value":{"condition":"c","iterations":1,"set_at":1.5,"tokens_at_start":2},'
    b'"uuid":"5d0a6f0e","session_id":"678f01dc"}',
    b'{"type":"transcript_mirror","filePath":"/home/dev/x.jsonl","entries":[{"type":"user"}]}',
    b'{"type":"control_request","request_id":"d","request":{"subtype":"request_user_dialog",'
    b'"dialog_kind":"k","payload":{"a":1},"tool_use_id":"t"}}',
    b'{"type":"control_request","request_id":"w","request":{"subtype":"can_use_tool",'
    b'"tool_name":"WebFetch","input":{"url":"https://example.com/","prompt":"p"},"tool_use_id":"t"}}',
    b'{"type":"keep_alive"}',
)
"""What CLIs write too, though none of the recordings has it."""
SPOILS = (b"\xff", b"\xc3\x28", b"\xed\xa0\xbd", b"\xf8\x88\x80\x80\x80", b"\x00", b"\x1b", b"\x85")
SCRAPS = (
    *(b"", b" ", b"\t", b"\r", b" \r", b"\x0c", b"\x00", b"\xef\xbb\xbf", "\u2028".encode()),
    *(b"null", b"0", b"[]", b"{}", b'""', b'"type"', b"{", b"}", b"[", b"}{", b"{}{}", b"{},"),
    *(b"NaN", b"Infinity", b"[debug] 12:00 started", b"Segmentation fault", b"\xff\xfe{\x00}\x00"),
    *(b'{"type":"user"}', b'{"type":"result"}', b'{"type":"assistant"}', b'{"type":"system"}'),
    *(b'{"type":"control_request"}', b'{"type":"control_response"}', b'{"type":"stream_event"}'),
    *(b'{"type":"control_cancel_request"}', b'{"type":null}', b'{"type":1e400}', b'{"type":[]}'),
    *(rb'{"type":"\ud83d"}', b'{"type":"system","subtype":[]}', b'{"type":"\xff"}'),
)

_TOKEN = re.compile(rb'\s*("(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+)')


class Place(NamedTuple):
    """Where a part of a line's text is."""

    start: int
    end: int
    name: bytes = b""
    """Of a value that is a member: its key."""
    depth: int = 0


class Line:
    """A recorded line, and where its values, keys and members are."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.values: list[Place] = []
        self.keys: list[Place] = []
        self.members: list[Place] = []
        """Each with its key, and without the commas around it."""
        self.spare: list[Place] = []
        """Each with one of the commas around it: what can be left out."""
        self._tokens = list(_TOKEN.finditer(text))
        self._next = 0
        self._value(b"", 0)
        self.shallow = [each for each in self.values if 0 < each.depth <= 2]
        self.telling = [each for each in self.values if each.name in TELLING]

    @property
    def kind(self) -> tuple[bytes, ...]:
        """What tells it from other lines: its own type and subtype, and its body's."""
        said = [each for each in self.values if each.name in (b"type", b"subtype", b"tool_name")]
        return tuple(self.text[each.start : each.end] for each in said if each.depth <= 2)

    def _take(self) -> re.Match[bytes]:
        self._next += 1
        return self._tokens[self._next - 1]

    def _peek(self) -> bytes:
        return self._tokens[self._next][1]

    def _value(self, name: bytes, depth: int) -> None:
        first = self._take()
        closing = {b"{": b"}", b"[": b"]"}.get(first[1])
        members: list[Place] = []
        while closing is not None and self._peek() != closing:
            if closing == b"}":
                members.append(self._member(depth + 1))
            else:
                self._value(b"", depth + 1)
            if self._peek() == b",":
                self._take()
        last = first if closing is None else self._take()
        self.values.append(Place(first.start(1), last.end(), name, depth))
        self.members += members
        self.spare += _with_comma(members)

    def _member(self, depth: int) -> Place:
        key = self._take()
        self._take()
        name = key[1][1:-1]
        self.keys.append(Place(key.start(1), key.end(), name, depth))
        self._value(name, depth)
        return Place(key.start(1), self.values[-1].end, name, depth)


def _with_comma(members: Sequence[Place]) -> Iterator[Place]:
    for number, each in enumerate(members):
        if number:
            yield each._replace(start=members[number - 1].end)
        elif len(members) > 1:
            yield each._replace(end=members[1].start)
        else:
            yield each


@cache
def recorded() -> list[list[Line]]:
    """Every line there is to begin with, by kind: the rare ones are as good as the frequent."""
    files = [DATA / "shapes.jsonl", *sorted((DATA / "streams").glob("*/*.jsonl"))]
    texts = [line for file in files for line in file.read_bytes().splitlines()]
    kinds: dict[tuple[bytes, ...], list[Line]] = defaultdict(list)
    for text in dict.fromkeys([*texts, *UNRECORDED]):
        line = Line(text)
        kinds[line.kind].append(line)
    return [kinds[kind] for kind in sorted(kinds)]


# Hostile values, as JSON text or nearly


def hostile(rng: Random) -> bytes:
    """A value that nobody expects."""
    return rng.choices(_HOSTILE, _HOSTILE_WEIGHTS)[0](rng)


def _number(rng: Random) -> bytes:
    return rng.choice(NUMBERS)


def _wrong(rng: Random) -> bytes:
    return rng.choice(WRONG)


def _string(rng: Random) -> bytes:
    return b'"' + b"".join(rng.choices(STRINGS, k=rng.choice((1, 1, 1, 2)))) + b'"'


def _long(rng: Random) -> bytes:
    unit = rng.choice((b"a", b"a\\n", rb"\ud83d", rb"\u0000", "\u20ac".encode(), b"word "))
    return b'"' + unit * (rng.choice((300, 21_000, 21_000, 200_000)) // len(unit)) + b'"'


def _deep(rng: Random) -> bytes:
    depth = rng.choice(DEPTHS)
    opening, inner, closing = rng.choice(
        ((b"[", b"", b"]"), (b'{"a":', b"1", b"}"), (b'[{"type":"text","x":', b"null", b"}]"))
    )
    return opening * depth + inner + closing * depth


def _wide(rng: Random) -> bytes:
    count = rng.choice((200, 2000, 10_000))
    if rng.random() < 0.5:
        return b"[" + b",".join([_wrong(rng)] * count) + b"]"
    value = rng.choice((b"1", b'"x"', b"null", b'{"costUSD":1e308}'))
    return b"{" + b",".join(b'"k%d":%s' % (each, value) for each in range(count)) + b"}"


def _borrowed(rng: Random) -> bytes:
    """What another line has somewhere."""
    line = rng.choice(rng.choice(recorded()))
    place = rng.choice(line.values)
    return line.text[place.start : place.end]


def _small_object(rng: Random) -> bytes:
    members = (_string(rng) + b":" + rng.choice((_number, _wrong, _string))(rng) for _ in range(3))
    return b"{" + b",".join(members) + b"}"


_HOSTILE: list[Callable[[Random], bytes]] = [
    *(_number, _wrong, _string, _borrowed, _small_object),
    *(_long, _deep, _wide),
]
_HOSTILE_WEIGHTS = [30, 20, 30, 10, 6, 1.5, 2, 0.5]


# Edits

Edit = tuple[int, int, bytes]


def _replaced(rng: Random, line: Line) -> Edit:
    """Another value in the place of one."""
    places = rng.choices((line.telling, line.shallow, line.values), (5, 4, 2))[0] or line.values
    place = rng.choice(places)
    return place.start, place.end, hostile(rng)


def _retyped(rng: Random, line: Line) -> Edit:
    """The body of one message under the type of another."""
    own = [each for each in line.values if each.name in (b"type", b"subtype")]
    if not own:
        return _replaced(rng, line)
    other = rng.choice(rng.choice(recorded()))
    place, theirs = rng.choice(own), rng.choice(other.values)
    named = [each for each in other.values if each.name == place.name and each.depth == place.depth]
    chosen = rng.choice(named) if named else theirs
    return place.start, place.end, other.text[chosen.start : chosen.end]


def _left_out(rng: Random, line: Line) -> Edit:
    place = rng.choice(line.spare)
    return place.start, place.end, b""


def _doubled(rng: Random, line: Line) -> Edit:
    """A second member of the same name, before the first or after it."""
    telling = [each for each in line.members if each.name in TELLING]
    place = rng.choice(telling or line.members)
    value = hostile(rng) if rng.random() < 0.7 else _borrowed(rng)
    member = b'"' + place.name + b'":' + value
    if rng.random() < 0.5:
        return place.start, place.start, member + b","
    return place.end, place.end, b"," + member


def _renamed(rng: Random, line: Line) -> Edit:
    place = rng.choice(line.keys)
    return place.start, place.end, _string(rng)


def _added(rng: Random, line: Line) -> Edit:
    """A member of a hostile name, or of one that belongs elsewhere."""
    place = rng.choice(line.members)
    name = _string(rng) if rng.random() < 0.5 else b'"' + rng.choice(sorted(TELLING)) + b'"'
    return place.start, place.start, name + b":" + hostile(rng) + b","


_EDITS: list[Callable[[Random, Line], Edit]] = [
    *(_replaced, _retyped, _left_out, _doubled, _renamed, _added)
]
_EDIT_WEIGHTS = [12, 2, 2, 3, 1, 2]


def _edits(rng: Random, line: Line) -> list[Edit]:
    if rng.random() < 0.1:
        return _everywhere(rng, line)
    count = rng.choices((1, 2, 4), (6, 3, 1))[0]
    return [rng.choices(_EDITS, _EDIT_WEIGHTS)[0](rng, line) for _ in range(count)]


def _everywhere(rng: Random, line: Line) -> list[Edit]:
    """Extremes in many places at once: all that is counted, say, or all that is named."""
    make = rng.choice((_number, _number, _string, _wrong))
    likely = [each for each in line.values if each.name not in (b"type", b"subtype")]
    if make is _number:
        likely = [each for each in likely if line.text[each.start : each.start + 1].isdigit()]
    chosen = [each for each in likely if each.depth and rng.random() < 0.7]
    return [(each.start, each.end, make(rng)) for each in chosen]


def _freshly_named(rng: Random, line: Line) -> list[Edit]:
    """An id of its own for a request: each of them is a question of its own."""
    named = [each for each in line.values if each.name == b"request_id" and each.depth == 1]
    return [(each.start, each.end, b'"fuzz-%016x"' % rng.getrandbits(64)) for each in named]


def applied(text: bytes, edits: Sequence[Edit]) -> bytes:
    """The text after these edits; of two that overlap, the earlier place has it."""
    parts: list[bytes] = []
    upto = 0
    for start, end, new in sorted(edits, key=lambda each: each[:2]):
        if start < upto:
            continue
        parts += [text[upto:start], new]
        upto = end
    return b"".join([*parts, text[upto:]])


# Whole lines


def _spoiled(rng: Random, text: bytes) -> bytes:
    """What is no JSON any more, or no UTF-8, or nearly."""
    at = rng.randrange(len(text) + 1)
    how = rng.randrange(6)
    if how == 0:
        return text[:at]
    if how == 1:
        return text[at:]
    if how == 2:
        return b"\xef\xbb\xbf" + text
    if how == 3:
        return text + rng.choice((b"\r", b" ", b"\r\r", b"}", b" trailing", b"\x00", text[:50]))
    return text[:at] + rng.choice(SPOILS) + text[at:]


def mutated(rng: Random) -> bytes:
    """One line as no CLI should write it, without its newline."""
    if rng.random() < 0.04:
        scrap = rng.choice(SCRAPS) if rng.random() < 0.9 else hostile(rng)
        return scrap.replace(b"\n", b" ")
    line = rng.choice(rng.choice(recorded()))
    fresh = _freshly_named(rng, line) if rng.random() < 0.8 else []
    text = applied(line.text, _edits(rng, line) + fresh)
    if rng.random() < 0.08:
        text = _spoiled(rng, text)
    return text.replace(b"\n", b" ")


def is_blank(line: bytes) -> bool:
    """Whether nobody need hear of this line: it has nothing but white space."""
    return not line.strip()


def as_read(line: bytes) -> bytes:
    """The line as whoever reads lines has it: before a newline, a carriage return is part of it."""
    return line.removesuffix(b"\r")


def shorter(line: bytes) -> Iterator[bytes]:
    """The line without one of its members, the largest first; nothing of what is no object."""
    try:
        places = Line(line).spare
    except (IndexError, RecursionError):
        return
    for each in sorted(places, key=lambda each: each.start - each.end):
        yield line[: each.start] + line[each.end :]
