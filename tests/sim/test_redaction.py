"""What redaction takes out by name, by header and by value, and what it leaves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse_sim.recorder import _argument  # pyright: ignore[reportPrivateUsage]
from pilothouse_sim.redaction import Redactor


def redacted(value: Any, environment: dict[str, str] | None = None) -> Any:
    return json.loads(Redactor(environment).line(json.dumps(value).encode()))


# Values of the environment


@pytest.mark.parametrize("secret", ['sword"fish', "sword\\fish", "sword\nfish", 'é"sword\\\n'])
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_value_is_known_however_json_escapes_it(
    secret: str, depth: int, *, ascii_only: bool
) -> None:
    value: Any = {"content": f"it is {secret.strip()}, yes"}
    for _ in range(depth):
        value = {"content": json.dumps(value, ensure_ascii=ascii_only)}
    redactor = Redactor({"SHIP_TOKEN": secret})
    line = redactor.line(json.dumps(value, ensure_ascii=ascii_only).encode())
    found = json.loads(line)
    for _ in range(depth):
        found = json.loads(found["content"])
    assert found == {"content": "it is redacted-secret-1, yes"}
    assert redactor.text(secret.strip()) == "redacted-secret-1"


def test_a_value_is_taken_out_of_the_header_s_command() -> None:
    secret = 'sword"\n\\fish'
    redactor = Redactor({"SHIP_TOKEN": secret})
    settings = json.dumps({"env": {"A": secret}, "apply": json.dumps([secret])})
    hidden = {"env": {"A": "redacted-secret-1"}, "apply": '["redacted-secret-1"]'}
    assert json.loads(_argument(settings, redactor)) == hidden
    assert _argument(f"say {secret}!", redactor) == "say redacted-secret-1!"


SECRET_NAMES = (
    "GITHUB_PAT PAT MYSQL_PWD DBPWD NPM_CONFIG__AUTH AUTH SESSION_COOKIE DB_PASS PGPASS PASS"
    " KEY_PASSPHRASE PASSCODE PROXY_AUTHORIZATION"
)
OTHER_NAMES = (
    "PWD OLDPWD PATH GIT_AUTHOR_NAME XAUTHORITY SSH_AUTH_SOCK GIT_ASKPASS BYPASS COMPASS MAX_TOKENS"
)


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_a_variable_is_secret_by_its_name(name: str) -> None:
    assert Redactor({name: "swordfish"}).text("a swordfish") == "a redacted-secret-1"
    assert Redactor({name: "12345678"}).text("a 12345678") == "a redacted-secret-1"


@pytest.mark.parametrize("name", OTHER_NAMES.split())
def test_a_variable_of_a_similar_name_is_none(name: str) -> None:
    assert Redactor({name: "swordfish"}).text("a swordfish") == "a swordfish"


def test_a_number_is_secret_as_a_whole_and_unless_short() -> None:
    redactor = Redactor({"PIN_SECRET": "12345678", "A_KEY": "1234567"})
    assert redactor.text("12345678 9123456780 1234567") == "redacted-secret-1 9123456780 1234567"


# Headers


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer redacted-token-1"),
        ("Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: Basic redacted-token-1"),
        ("Authorization: token opaque\nHost: x", "Authorization: token redacted-token-1\nHost: x"),
        ("authorization: opaque words\r\n", "authorization: redacted-token-1\r\n"),
        ("Authorization: Digest user=\"a\", r='b'", "Authorization: redacted-token-1"),
        ("-H 'Authorization: Bearer abcdef' x", "-H 'Authorization: Bearer redacted-token-1' x"),
        ("Basic dXNlcjpwYXNz", "Basic redacted-token-1"),
        ("Cookie: sid=abcdef; b=c\nHost: x", "Cookie: redacted-token-1\nHost: x"),
        ("Set-Cookie: sid=abcdef; Path=/", "Set-Cookie: redacted-token-1"),
        ("x-api-key: abcd1234efgh5678", "x-api-key: redacted-secret-1"),
        ("X-Ship-Token: abcdefgh", "X-Ship-Token: redacted-secret-1"),
        ("SECRET=abcdefgh", "SECRET=redacted-secret-1"),
        ("export GITHUB_PAT=abcdefgh; x", "export GITHUB_PAT=redacted-secret-1; x"),
        ('DB_PASSWORD="sword fish"', 'DB_PASSWORD="redacted-secret-1"'),
        ("clientSecret: abcd1234", "clientSecret: redacted-secret-1"),
        ('{"privateKey": "opaque"}', '{"privateKey": "redacted-secret-1"}'),
        (
            '{"name": "x-api-key", "value": "opaque"}',
            '{"name": "x-api-key", "value": "redacted-secret-1"}',
        ),
        ('[["authorization","opaque"]]', '[["authorization","redacted-secret-1"]]'),
        (
            '{"Authorization": {"value": "opaque"}}',
            '{"Authorization": {"value": "redacted-token-1"}}',
        ),
        (r"{\"password\":\"opaque\",\"a\":1}", r"{\"password\":\"redacted-secret-1\",\"a\":1}"),
    ],
)
def test_a_header_or_an_assignment_loses_its_value(text: str, becomes: str) -> None:
    assert Redactor().text(text) == becomes
    assert redacted({"content": text}) == {"content": becomes}


@pytest.mark.parametrize(
    "text",
    [
        "authorization: string;",
        "the cookie: a chocolate one",
        "password=get_password(), secret=secret",
        "SECRET_KEY=os.environ['X'] API_TOKEN=$OTHER",
        "MAX_TOKENS=32000000 and COMPASS=northeast",
        '{"password": "string", "required": ["api_key", "region"]}',
        "bearer authentication, Basic understanding, basic knowledge",
        "a secret: nobody knows; the key: practice; keyboard=qwertyuiop",
    ],
)
def test_harmless_words_stay(text: str) -> None:
    assert Redactor().text(text) == text


# Members


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        ({"name": "Authorization", "value": "opaque"}, ["Authorization", "redacted-secret-1"]),
        ({"value": "opaque", "key": "SHIP_PAT"}, ["redacted-secret-1", "SHIP_PAT"]),
        ({"Authorization": {"value": "opaque"}}, [{"value": "redacted-secret-1"}]),
        ({"set-cookie": ["opaque"]}, [["redacted-secret-1"]]),
        ({"privateKey": "opaque", "publicKey": "opaque?"}, ["redacted-secret-1", "opaque?"]),
        ({"headers": [["authorization", "opaque"]]}, [[["authorization", "redacted-secret-1"]]]),
    ],
)
def test_a_member_is_secret_by_the_name_beside_or_above_it(value: Any, becomes: Any) -> None:
    assert list(redacted(value).values()) == becomes


@pytest.mark.parametrize(
    "value",
    [
        {"properties": {"token": {"type": "string", "description": "a token of trust"}}},
        {"required": ["password", "username"]},
        {"name": "monkey", "value": "banana"},
    ],
)
def test_members_that_only_speak_of_secrets_stay(value: Any) -> None:
    assert redacted(value) == value
