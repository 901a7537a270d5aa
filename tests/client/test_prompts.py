"""What a person says: text, images, documents."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from pilothouse import UsageError, document, image
from pilothouse.client.prompts import is_command, user_message


def test_a_prompt_of_mixed_parts_becomes_blocks() -> None:
    message = user_message(["look", image(b"\x89PNG", "image/png")], None)
    text, picture = message["message"]["content"]
    assert text == {"type": "text", "text": "look"}
    assert base64.b64decode(picture["source"]["data"]) == b"\x89PNG"


def test_a_given_uuid_is_kept_and_fields_left_out_are_left_out() -> None:
    message = user_message("hi", "u1", priority="now", shouldQuery=None)
    assert message["uuid"] == "u1"
    assert message["priority"] == "now"
    assert "shouldQuery" not in message


def test_an_image_file_tells_its_own_type(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(b"png")
    assert image(path)["source"]["media_type"] == "image/png"


def test_a_text_document_travels_as_text(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("remember")
    block = document(path, title="Notes")
    assert block["source"] == {"type": "text", "media_type": "text/plain", "data": "remember"}
    assert block["title"] == "Notes"


def test_a_pdf_travels_as_bytes() -> None:
    source = document(b"%PDF", "application/pdf")["source"]
    assert base64.b64decode(source["data"]) == b"%PDF"


@pytest.mark.parametrize("make", [image, document])
def test_an_unreadable_type_is_refused_with_what_to_do(make: object) -> None:
    with pytest.raises(UsageError, match="give media_type"):
        make(b"?")  # pyright: ignore[reportCallIssue] - both functions take bytes


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("/compact", True),
        (["/compact"], True),
        ([{"type": "text", "text": "/compact"}], True),
        ("not /compact", False),
        ([{"type": "image", "source": {}}, "/compact"], False),
        ([], False),
    ],
)
def test_a_prompt_that_begins_with_a_slash_is_a_command(content: Any, expected: bool) -> None:
    assert is_command(content) is expected
