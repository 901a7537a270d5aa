"""The proof that a server knows the token, without a network."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.proof import (
    LONGEST_ANSWER,
    NONCE_LENGTH,
    Challenge,
    NotProven,
    WrongProof,
    make_proof,
)

TOKEN = "t0ken-of-the-tests"
ADDRESS = "http://127.0.0.1:8137"
SERVER, CLIENT = ("127.0.0.1", 8137), ("127.0.0.1", 50123)
NONCE = "n" * NONCE_LENGTH


def challenge(address: str = ADDRESS) -> Challenge:
    return Challenge(address, TOKEN, server=SERVER, client=CLIENT)


def nonce_of(asked: Challenge) -> str:
    return parse_qs(urlsplit(asked.request.split()[1].decode()).query)["nonce"][0]


def answer(body: Any, status: str = "200 OK", more: str = "") -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def right(asked: Challenge, **other: Any) -> bytes:
    made = {"token": TOKEN, "server": SERVER, "client": CLIENT, **other}
    return answer({"proof": make_proof(nonce=nonce_of(asked), **made)})


def test_the_question_has_no_token_and_a_nonce_of_its_own() -> None:
    first, second = challenge(), challenge()
    assert TOKEN.encode() not in first.request
    assert first.request.startswith(b"GET /proof?nonce=")
    assert b"\r\nHost: 127.0.0.1:8137\r\n" in first.request
    assert nonce_of(first) != nonce_of(second)
    assert len(nonce_of(first)) == NONCE_LENGTH


def test_a_path_of_the_address_stays_before_that_of_the_proof() -> None:
    assert challenge("http://ship.example/pilot/").request.startswith(b"GET /pilot/proof?")


@given(cuts=st.lists(st.integers(0, 300), max_size=5))
def test_the_right_proof_is_taken_however_it_is_cut(cuts: list[int]) -> None:
    asked = challenge()
    whole = right(asked)
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    pieces = [whole[a:b] for a, b in pairwise(places)]
    assert [asked.receive(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]


@pytest.mark.parametrize(
    "other",
    [
        {"token": "another"},
        {"server": ("::1", 8137)},
        {"server": ("127.0.0.1", 8138)},
        {"client": ("127.0.0.1", 50124)},
        {"client": ("127.0.0.2", 50123)},
        {"client": None},
    ],
)
def test_a_proof_of_another_token_or_connection_is_refused(other: dict[str, Any]) -> None:
    asked = challenge()
    with pytest.raises(WrongProof, match=r"127\.0\.0\.1:8137 .*the token was not sent"):
        asked.receive(right(asked, **other))


def test_a_proof_of_another_question_is_refused() -> None:
    with pytest.raises(WrongProof):
        challenge().receive(right(challenge()))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (answer({"proof": "x"}, "401 Unauthorized"), "'HTTP/1.1 401 Unauthorized'"),
        (answer({"proof": "x"}, "302 Found", "Location: http://a.example\r\n"), "302 Found"),
        (answer({"proof": "x"}, "101 Switching Protocols"), "101 Switching"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "SSH-2.0"),
        (b"\x1b[2J\x00\r\n\r\n", r"'\?\[2J\?'"),
        (answer(b""), "no proof"),
        (answer(b"\xff"), "no proof"),
        (answer({"proof": 7}), "no proof"),
        (answer(["proof"]), "no proof"),
        (answer({"proof": "x"}) + b"HTTP/1.1 200 OK\r\n", "no proof"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "no proof"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "no proof"),
        (b"x" * (LONGEST_ANSWER + 1), "too long"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n" + b"x" * 9000, "too long"),
    ],
)
def test_what_does_not_answer_as_the_server_does_is_something_else(data: bytes, told: str) -> None:
    with pytest.raises(NotProven, match=f"something else .*127.0.0.1:8137.*{told}.*not sent"):
        challenge().receive(data)


def test_a_proof_that_is_no_ascii_is_refused() -> None:
    with pytest.raises(WrongProof):
        challenge().receive(answer({"proof": "\ud7ff" * 64}))


def test_a_server_that_goes_by_other_names_says_what_to_do() -> None:
    with pytest.raises(NotProven, match="setting `hosts`"):
        challenge().receive(answer({}, "421 Misdirected Request"))


def test_a_connection_that_ends_is_one_that_is_not_there() -> None:
    with pytest.raises(ConnectionError, match="not sent") as ended:
        challenge().receive(b"")
    assert not isinstance(ended.value, NotProven)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("127.0.0.1", 8137), ("::ffff:127.0.0.1", 8137, 0, 0)),
        (("::1", 8137), ("0:0:0:0:0:0:0:1", 8137, 0, 0)),
        (("fe80::1%eth0", 8137), ("fe80::1", 8137, 0, 2)),
        (["127.0.0.1", 8137], ("127.0.0.1", 8137)),
    ],
)
def test_one_end_is_the_same_however_it_is_written(one: Any, other: Any) -> None:
    assert make_proof(TOKEN, NONCE, one, CLIENT) == make_proof(TOKEN, NONCE, other, CLIENT)
    assert make_proof(TOKEN, NONCE, SERVER, one) == make_proof(TOKEN, NONCE, SERVER, other)


def test_the_two_ends_are_not_the_same() -> None:
    assert make_proof(TOKEN, NONCE, SERVER, CLIENT) != make_proof(TOKEN, NONCE, CLIENT, SERVER)
