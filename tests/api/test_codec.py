"""What goes out is JSON that every reader takes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw

from pilothouse.api.codec import encode_strictly


class Note(msgspec.Struct):
    text: str
    raw: bytes = b""
    more: Any = None
    body: Raw = Raw(b"null")


def test_a_value_of_ours_is_written_whatever_words_are_in_it() -> None:
    given = Note("\ud83d", b"\xff", {"deep": [[1.5, None, "\udc00"]]}, Raw(b'{"a": 1}'))
    assert json.loads(encode_strictly(given)) == {
        "text": "\ufffd",
        "raw": "/w==",
        "more": {"deep": [[1.5, None, "\ufffd"]]},
        "body": {"a": 1},
    }
