"""What a cassette must not tell, and what stands in its place.

Redaction works on the strings of a line, so JSON stays JSON, and the same secret gets the same
stand-in everywhere in a cassette: `redacted-key-1`, `redacted-email-2@example.com`, ... The home
folder becomes `/home/user`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from .rewriting import encoded_path, path_changer, rewrite_strings

__all__ = ["HOME", "RULES", "STAND_IN", "Redactor", "Rule"]

HOME: Final = "/home/user"
USER: Final = "user"

STAND_IN: Final = re.compile(r"redacted-[a-z]+-\d+(?:@example\.com)?")
"""What redaction leaves, as a replay finds it."""


@dataclass(frozen=True, slots=True)
class Rule:
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


def _rule(kind: str, cues: str, pattern: str, flags: re.RegexFlag = re.NOFLAG) -> Rule:
    return Rule(kind, re.compile(pattern, flags), tuple(cues.split()))


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
        "bearer basic",
        r"(?<!\w)(?:bearer|basic) (?P<secret>(?=[^\s\"']{0,80}\d)[\w.~+/=-]{12,8000})",
        re.IGNORECASE,
    ),
    _rule(
        "secret",
        "key secret passw token",
        r"(?<!\w)(?:\w{0,40}_)?(?:api_?key|secret(?:_?key)?|password|passwd|(?:access|auth|refresh)"
        r"_?token)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>(?=[^\s\"']{0,80}\d)[\w.~+/=-]{8,400})",
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
    r"(?i:api[_-]?key|token|secret|password|passwd|passphrase|authorization|credentials?)$|_KEY$"
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

SECRET_VARIABLE: Final = re.compile(r"KEY|TOKEN(?!S)|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
SHORTEST_SECRET: Final = 6

PLAIN_NAMES: Final = frozenset(
    {"admin", "bash", "bot", "claude", "default", "dev", "guest", "home", "main", "model", "node"}
    | {"nobody", "root", "runner", "system", "test", "text", "tool", "ubuntu", "user"}
)
"""User names that name no person, or are words of the wire."""

KEY_CUES: Final = ("key", "token", "secret", "passw", "passphrase", "authorization", "credential")


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
        self._rules = [
            *(Rule("match", re.compile(pattern)) for pattern in extra),
            *_values(environment or {}),
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
        return rewrite_strings(data, lambda key, text: self._under(key, text, rules))

    def text(self, text: str) -> str:
        """Any text without its secrets."""
        return self._text(text, self._rules)

    def _under(self, key: str | None, text: str, rules: Sequence[Rule]) -> str:
        """The text that stands under this key of a JSON object."""
        kind = ACCOUNT_KEYS.get(key or "")
        if kind and text:
            return self._stand_in(kind, text)
        if key and len(text) >= SHORTEST_SECRET and SECRET_KEY.search(key):
            return self._stand_in("secret", text)
        return self._text(text, rules)

    def _text(self, text: str, rules: Sequence[Rule]) -> str:
        if rules:
            lowered = text.lower()
            for rule in rules:
                if rule.may_match(lowered):
                    text = rule.pattern.sub(partial(self._replace, rule), text)
        text = self._change_paths(text)
        if self._user is not None and not self._user.fullmatch(text):
            text = self._user.sub(USER, text)
        return text

    def _replace(self, rule: Rule, found: re.Match[str]) -> str:
        if "secret" not in rule.pattern.groupindex:
            return self._stand_in(rule.kind, found[0])
        start, end = found.span("secret")
        whole, offset = found[0], found.start()
        secret = self._stand_in(rule.kind, found["secret"])
        return whole[: start - offset] + secret + whole[end - offset :]

    def _stand_in(self, kind: str, secret: str) -> str:
        if STAND_IN.fullmatch(secret):
            return secret
        if secret not in self._stand_ins:
            self._counts[kind] = number = self._counts.get(kind, 0) + 1
            ending = "@example.com" if kind == "email" else ""
            self._stand_ins[secret] = f"redacted-{kind}-{number}{ending}"
        return self._stand_ins[secret]


def _values(environment: Mapping[str, str]) -> list[Rule]:
    """Rules for what the environment keeps under names that say it is secret."""
    secrets = {
        value
        for name, value in environment.items()
        if SECRET_VARIABLE.search(name) and len(value) >= SHORTEST_SECRET and not value.isdigit()
    }
    if not secrets:
        return []
    longest_first = sorted(secrets, key=lambda value: (-len(value), value))
    cues = tuple(value.lower() for value in longest_first)
    return [Rule("secret", re.compile("|".join(map(re.escape, longest_first))), cues)]


def _user_pattern(user: str) -> re.Pattern[str] | None:
    if len(user) < 3 or user.lower() in PLAIN_NAMES:
        return None
    return re.compile(rf"(?<![\w-]){re.escape(user)}(?![\w-])")
