"""What those who watch are not told."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from pilothouse.api.events import Batch, Event
from pilothouse.api.records import OptionsChanged, SessionStarted, decode_record, encode_record
from pilothouse.api.redaction import REDACTED, tellable
from pilothouse.api.requests import SessionOptions

OPTIONS = SessionOptions(
    model="opus",
    env={"TOKEN": "hush-1"},
    mcp_servers={
        "web": {"type": "http", "url": "https://a.example", "headers": {"X-Key": "hush-2"}},
        "own": {"command": "serve", "args": ["-v"], "env": {"KEY": "hush-3"}},
    },
    settings={"env": {"OTHER": "hush-4"}, "model": "opus"},
    flags={"mcp-config": '{"own": {"env": {"KEY": "hush-5"}}}', "verbose": None, "effort": "low"},
)


def batch(*records: SessionStarted | OptionsChanged) -> Batch:
    events = [
        Event(seq, "s", kind, 0, Raw(body))
        for seq, (kind, body) in enumerate(map(encode_record, records), 1)
    ]
    return Batch(events=events, cursor=len(events))


def test_values_of_variables_and_headers_are_taken_out_and_nothing_else() -> None:
    for record in (SessionStarted(cwd="/work", options=OPTIONS), OptionsChanged(options=OPTIONS)):
        told = tellable(batch(record)).events[0]
        assert b"hush" not in bytes(told.body)
        again = decode_record(told.body)
        assert isinstance(again, SessionStarted | OptionsChanged)
        options = again.options
        assert options.env == {"TOKEN": REDACTED}
        assert options.model == "opus"
        assert options.mcp_servers["own"] == {
            "command": "serve",
            "args": ["-v"],
            "env": {"KEY": REDACTED},
        }
        assert options.mcp_servers["web"]["url"] == "https://a.example"
        assert options.settings == {"env": {"OTHER": REDACTED}, "model": "opus"}
        assert options.flags == {"mcp-config": REDACTED, "verbose": None, "effort": "low"}


def test_what_has_no_options_is_passed_on_as_it_is() -> None:
    line = Event(1, "s", "cli", 0, Raw(b'{"env": {"A": "b"},  "spaced": 1}'))
    given = Batch(events=[line], cursor=1)
    assert tellable(given) is given
    started = batch(SessionStarted(cwd="/work")).events[0]
    mixed = tellable(Batch(events=[line, msgspec.structs.replace(started, seq=2)], cursor=2))
    assert mixed.events[0] is line
    assert [event.seq for event in mixed.events] == [1, 2]


def test_a_record_that_is_damaged_is_told_as_nothing() -> None:
    whole = batch(SessionStarted(cwd="/work", options=OPTIONS))
    [event] = whole.events
    cut = Event(event.seq, "s", event.kind, 0, Raw(bytes(event.body)[:40]))
    assert bytes(tellable(Batch(events=[cut], cursor=1)).events[0].body) == b"null"
