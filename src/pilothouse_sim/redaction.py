"""What a cassette must not tell, and what stands in its place.

Redaction works on the strings of a line, so JSON stays JSON, and the same secret gets the same
stand-in everywhere in a cassette: `redacted-key-1`, `redacted-email-2@example.com`, ... The home
folder becomes `/home/user`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from pilothouse_sim.line_strings import encoded_path, path_changer, rewrite_strings

__all__ = ["HOME", "RULES", "STAND_IN", "RedactionRule", "Redactor"]

HOME: Final = "/home/user"
USER: Final = "user"

STAND_IN: Final = re.compile(r"redacted-[a-z]+-\d+(?:@example\.com)?")
"""What redaction leaves, as a replay finds it."""

GROUPS: Final = ("secret", "whole", "other")
"""Which part of a match is the secret: the first of these that matched, or else all of it."""


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """What looks like a secret in any text. A group named `secret` is only that part.

    Where none of the `cues` is in the text, in lower case, there is nothing to look for: searching
    for them is many times faster. No cues: always look.
    """

    kind: str
    pattern: re.Pattern[str]
    cues: tuple[str, ...] = ()

    def may_match(self, lowered: str) -> bool:
        for cue in self.cues:
            if cue in lowered:
                return True
        return not self.cues


def _rule(kind: str, cues: str, pattern: str, flags: re.RegexFlag = re.NOFLAG) -> RedactionRule:
    return RedactionRule(kind, re.compile(pattern, flags), tuple(cues.split()))


_NAME: Final = (
    r"(?:api[_-]?key|(?:private|access|secret|signing|encryption)[_-]?(?:access[_-]?)?key|secret"
    r"|password|passwd|passphrase|(?:access|auth|refresh|id|session|bearer|api)[_-]?token)"
)
"""What a secret is called in any text."""

_HEADER: Final = r"(?:(?:proxy-)?authorization|(?:set-)?cookie)"
_QUOTE: Final = r"\\{0,3}[\"']"
_GAP: Final = r"\s{0,4}+"
_QUOTED: Final = (
    r"(?P<secret>(?!(?:string|unknown|undefined|required|optional|boolean)\b)"
    r"(?:[^\r\n\"'\\]|\\(?![\\\"'nr])){6,8000})"
)
"""What stands between quotes, also escaped ones, unless it is the word of a schema."""

# Every pattern starts at a boundary and repeats within bounds: a line may hold megabytes of base64.
RULES: Final = (
    _rule(
        "key",
        "-----begin",
        r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[^-]{0,20000}-----END [A-Z ]{0,20}-----",
    ),
    _rule("key", "sk-", r"(?<![\w-])sk-(?:ant-[\w-]{4,400}|(?=[\w-]{0,80}\d)[\w-]{20,400})"),
    _rule("key", "akia asia", r"(?<!\w)(?:AKIA|ASIA)[0-9A-Z]{16}(?!\w)"),
    _rule("key", "aiza", r"(?<!\w)AIza[\w-]{35}"),
    _rule(
        "token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox npm_ pypi-",
        r"(?<!\w)(?:gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|pypi-)[\w-]{16,400}",
    ),
    _rule("token", "eyj", r"(?<![\w.-])eyJ[\w-]{8,8000}\.[\w-]{8,8000}\.[\w-]{0,8000}"),
    _rule(
        "token",
        "authorization",
        rf"(?<![A-Za-z0-9])authorization(?:{_QUOTE})?{_GAP}[:=]{_GAP}"
        rf"(?:\{{{_GAP}{_QUOTE}value{_QUOTE}{_GAP}:{_GAP})?(?:{_QUOTE})?"
        r"(?:(?:bearer|basic|token|negotiate|ntlm|apikey) {1,4}(?P<secret>[^\s\"'`\\,;]{1,8000})"
        rf"|(?P<whole>digest [^\r\n]{{6,8000}})|{_QUOTED.replace('secret', 'other')})",
        re.IGNORECASE,
    ),
    _rule(
        "token",
        "bearer basic",
        r"(?<!\w)(?:bearer|basic) (?P<secret>(?=[^\s\"']{0,80}\d)[\w.~+/=-]{12,8000})",
        re.IGNORECASE,
    ),
    # Without a digit it is base64 where a capital stands within a word.
    _rule(
        "token",
        "basic",
        r"(?<!\w)[Bb]asic (?P<secret>(?=[^\s\"']{0,80}[a-z][A-Z])[\w+/=-]{12,8000})",
    ),
    _rule(
        "token",
        "cookie",
        rf"(?<!\w)cookie(?:{_QUOTE})?{_GAP}:{_GAP}(?:{_QUOTE})?"
        r"(?P<secret>[^\s=;:\"'\\]{1,200}=[^\r\n\"'\\]{1,8000})",
        re.IGNORECASE,
    ),
    # Members of JSON within a text.
    _rule(
        "secret",
        "key secret pass token authorization cookie",
        rf"(?<=[\"'])(?:[\w-]{{0,40}}?{_NAME}|(?:set-)?cookie){_QUOTE}{_GAP}:{_GAP}"
        rf"(?:\{{{_GAP}{_QUOTE}value{_QUOTE}{_GAP}:{_GAP})?{_QUOTE}{_QUOTED}",
        re.IGNORECASE,
    ),
    _rule(
        "secret",
        "key secret pass token authorization cookie",
        rf"(?:{_QUOTE}(?:name|key|header){_QUOTE}{_GAP}:{_GAP}|[\[,]{_GAP}\[{_GAP}){_QUOTE}"
        rf"(?:[\w-]{{0,40}}?{_NAME}|{_HEADER}){_QUOTE}{_GAP},{_GAP}"
        rf"(?:{_QUOTE}value{_QUOTE}{_GAP}:{_GAP})?{_QUOTE}{_QUOTED}",
        re.IGNORECASE,
    ),
    # Assignments of a shell or an env file, whose values need look like nothing.
    _rule(
        "secret",
        "key secret pass token _pat pwd",
        r"(?<![\w-])(?:[A-Z0-9_]{0,40}?(?:API_?KEY|(?:PRIVATE|ACCESS|SECRET)_?KEY|SECRET|PASSWORD"
        r"|PASSWD|PASSPHRASE|TOKEN)|[A-Z0-9_]{1,40}?_(?:PAT|PASS|PWD))="
        r"(?:\"(?P<secret>[^\"\r\n$]{6,400})\"|'(?P<whole>[^'\r\n]{6,400})'"
        r"|(?P<other>(?![$<{(])[^\s\"'`\\;&|()\[\]]{6,400}+)(?![(\[]))",
    ),
    _rule(
        "secret",
        "x-",
        rf"(?<![\w-])x-[\w-]{{0,40}}?(?:key|token|secret)(?:{_QUOTE})?{_GAP}:{_GAP}"
        rf"(?:{_QUOTE})?(?P<secret>[\w.~+/=-]{{6,400}})",
        re.IGNORECASE,
    ),
    _rule(
        "secret",
        "key secret passw token",
        rf"(?<!\w)(?:\w{{0,40}}?){_NAME}[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?"
        r"(?P<secret>(?=[^\s\"']{0,80}\d)[\w.~+/=-]{8,400})",
        re.IGNORECASE,
    ),
    _rule("secret", "://", r"://[^\s/:@]{1,100}:(?P<secret>[^\s/@]{3,200})@"),
    _rule(
        "email",
        "@",
        r"(?<![\w.+-])(?!(?:git|noreply)@)[\w.+-]{1,64}@(?!example\.(?:com|org|net)\b)"
        r"(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])",
    ),
)

SECRET_KEY: Final = re.compile(
    r"(?i:(?:api|private|access|signing|encryption)[_-]?key|token|secret|password|passwd|passphrase"
    r"|authorization|cookie|credentials?)$|_(?:KEY|PAT|PASS|PWD|AUTH)$"
)
"""A string under such a key is a secret, whatever it looks like."""

ACCOUNT_KEYS: Final = {
    "email": "email",
    "emailAddress": "email",
    "organization": "organization",
    "organizationName": "organization",
    "organizationUuid": "organization",
    "organization_uuid": "organization",
    "accountUuid": "account",
    "account_uuid": "account",
    "fullName": "person",
}
"""A string under such a key tells whose account it is."""

NAMING: Final = ("name", "key", "header")
"""Of a pair of members, the one that says what the other, `value`, is."""

SECRET_VARIABLE: Final = re.compile(
    r"KEY|TOKEN(?!S)|SECRET|CREDENTIAL|PASS(?:W|PHRASE|CODE)|(?<!ASK)(?<!BY)(?<!COM)PASS(?=_|\d|$)"
    r"|(?:^|_)PAT$|(?<=.)(?<!^OLD)PWD$|AUTH(?:_CONFIG)?$|AUTHORIZATION|COOKIES?$",
    re.IGNORECASE,
)
SHORTEST_SECRET: Final = 6
SHORTEST_NUMBER: Final = 8
ESCAPES: Final = 3
"""How often JSON may stand in a string of JSON for a variable's value to be known again."""

PLAIN_NAMES: Final = frozenset(
    {"admin", "bash", "bot", "claude", "default", "dev", "guest", "home", "main", "model", "node"}
    | {"nobody", "root", "runner", "system", "test", "text", "tool", "ubuntu", "user"}
)
"""User names that name no person, or are words of the wire."""

KEY_CUES: Final = (
    *("key", "token", "secret", "pass", "authorization", "cookie", "credential"),
    *("_pat", "_pwd", "_auth"),
)


class Redactor:
    """Takes the secrets out of lines and texts. It remembers what stands for what."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        home: str = "",
        user: str = "",
        extra: Sequence[str] = (),
    ) -> None:
        self._stand_ins: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._values = _values(environment or {})
        self._rules = [
            *(RedactionRule("match", re.compile(pattern)) for pattern in extra),
            *_value_rules(self._values),
            *RULES,
        ]
        self._change_paths = path_changer([(home, HOME)])
        self._user = _user_pattern(user or home.rpartition("/")[2])
        names = [home, encoded_path(home), user or home.rpartition("/")[2]]
        self._cues = [name.lower() for name in (*KEY_CUES, *ACCOUNT_KEYS, *names) if name]

    def line(self, data: bytes) -> bytes:
        """One line of the wire without its secrets."""
        said = data.decode("utf-8", "surrogateescape")
        if "\\u" in said or "\\/" in said:
            # Escaped, a cue could look otherwise.
            rules, by_name = self._rules, True
        else:
            lowered = said.lower()
            rules = [rule for rule in self._rules if rule.may_match(lowered)]
            by_name = any(cue in lowered for cue in self._cues)
        if not rules and not by_name:
            return data
        named = frozenset(_named_secrets(_parsed(data))) if by_name else frozenset[str]()

        def change(key: str | None, text: str) -> str:
            if key is not None and text in named:
                return self._stand_in("secret", text)
            return self._under(key, text, rules)

        return rewrite_strings(data, change)

    def text(self, text: str) -> str:
        """Any text without its secrets."""
        return self._text(text, self._rules)

    def _under(self, key: str | None, text: str, rules: Sequence[RedactionRule]) -> str:
        """The text that stands under this key of a JSON object."""
        kind = ACCOUNT_KEYS.get(key or "")
        if kind and text:
            return self._stand_in(kind, text)
        if key and len(text) >= SHORTEST_SECRET and SECRET_KEY.search(key):
            return self._stand_in("secret", text)
        return self._text(text, rules)

    def _text(self, text: str, rules: Sequence[RedactionRule]) -> str:
        if rules:
            lowered = text.lower()
            for rule in rules:
                if rule.may_match(lowered):
                    text = rule.pattern.sub(partial(self._replace, rule), text)
        text = self._change_paths(text)
        if self._user is not None and not self._user.fullmatch(text):
            text = self._user.sub(USER, text)
        return text

    def _replace(self, rule: RedactionRule, found: re.Match[str]) -> str:
        if "secret" not in rule.pattern.groupindex:
            return self._stand_in(rule.kind, self._values.get(found[0], found[0]))
        group = next((name for name in GROUPS if found.groupdict().get(name)), 0)
        start, end = found.span(group)
        secret = self._stand_in(rule.kind, found[group])
        whole, offset = found[0], found.start()
        return whole[: start - offset] + secret + whole[end - offset :]

    def _stand_in(self, kind: str, secret: str) -> str:
        if STAND_IN.fullmatch(secret):
            return secret
        if secret not in self._stand_ins:
            self._counts[kind] = number = self._counts.get(kind, 0) + 1
            ending = "@example.com" if kind == "email" else ""
            self._stand_ins[secret] = f"redacted-{kind}-{number}{ending}"
        return self._stand_ins[secret]


def _values(environment: Mapping[str, str]) -> dict[str, str]:
    """What the environment keeps under names that say it is secret, by each way to write it."""
    secrets = {
        value.strip()
        for name, value in environment.items()
        if SECRET_VARIABLE.search(name) and _is_long_enough(value.strip())
    }
    return {form: value for value in sorted(secrets) for form in _forms(value)}


def _is_long_enough(value: str) -> bool:
    return len(value) >= (SHORTEST_NUMBER if value.isdigit() else SHORTEST_SECRET)


def _forms(value: str) -> Iterator[str]:
    """The value, and how it stands in JSON, in JSON within JSON, ..."""
    for ascii_only in (False, True):
        form = value
        yield form
        for _ in range(ESCAPES):
            form = json.dumps(form, ensure_ascii=ascii_only)[1:-1]
            yield form


def _value_rules(values: Mapping[str, str]) -> list[RedactionRule]:
    if not values:
        return []
    longest_first = sorted(values, key=lambda form: (-len(form), form))
    patterns = (
        rf"(?<!\d){form}(?!\d)" if form.isdigit() else re.escape(form) for form in longest_first
    )
    cues = tuple(form.lower() for form in longest_first)
    return [RedactionRule("secret", re.compile("|".join(patterns)), cues)]


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _named_secrets(value: Any) -> Iterator[str]:
    """The strings that a member or an item beside or above them calls secret."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            members = cast("dict[str, Any]", found)
            yield from _named_members(members)
            waiting += members.values()
        elif isinstance(found, list):
            items = cast("list[Any]", found)
            yield from _named_items(items)
            waiting += items


def _named_members(members: Mapping[str, Any]) -> Iterator[str]:
    names = (members.get(name) for name in NAMING)
    if any(isinstance(name, str) and SECRET_KEY.search(name) for name in names):
        yield from _long_strings(members.get("value"))
    for name, inner in members.items():
        if isinstance(inner, dict) and SECRET_KEY.search(name):
            yield from _long_strings(cast("dict[str, Any]", inner).get("value"))


def _named_items(items: Sequence[Any]) -> Iterator[str]:
    """Of pairs in a list; a pair alone may be two names."""
    for item in items:
        match item:
            case [str(name), value] if SECRET_KEY.search(name):
                yield from _long_strings(value)
            case _:
                pass


def _long_strings(value: Any) -> Iterator[str]:
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    for each in values:
        if isinstance(each, str) and len(each) >= SHORTEST_SECRET:
            yield each


def _user_pattern(user: str) -> re.Pattern[str] | None:
    if len(user) < 3 or user.lower() in PLAIN_NAMES:
        return None
    return re.compile(rf"(?<![\w-]){re.escape(user)}(?![\w-])")
