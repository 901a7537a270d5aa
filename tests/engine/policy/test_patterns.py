from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.engine.policy import JudgedAsk
from tests.support.engine.policies import bash, rule, verdict

# Paths


def write(path: str, cwd: Path | str | None) -> JudgedAsk:
    return JudgedAsk("Write", {"file_path": path}, cwd=None if cwd is None else str(cwd))


SRC = rule('tool = ["Write", "NotebookEdit"]', 'path = "src/**"', 'action = "allow"')


@pytest.mark.parametrize(
    ("path", "matches"),
    [
        ("src/a.py", True),
        ("src/deep/er/a.py", True),
        ("./src//a.py", True),
        ("docs/../src/a.py", True),
        ("{cwd}/src/a.py", True),
        ("src/../a.py", False),
        ("src/../../etc/passwd", False),
        ("src/../../{name}/src/a.py", True),
        ("../src/a.py", False),
        ("/src/a.py", False),
        ("{cwd}x/src/a.py", False),
        ("{cwd}/src/../../src/a.py", False),
        ("~/src/a.py", False),
        ("~me/src/a.py", False),
        (" /etc/passwd", False),
        ("src/a.py ", False),
        ("srcs/a.py", False),
        ("src/\x00a", False),
        ("src/\ud800", False),
        ("", False),
    ],
)
def test_a_relative_pattern_stays_in_the_working_directory(
    tmp_path: Path, path: str, matches: bool
):
    cwd = tmp_path.resolve()
    ask = write(path.format(cwd=cwd, name=cwd.name), cwd)
    assert (verdict(SRC, ask, home=Path("/home/me")) == "allow") is matches


def test_without_a_working_directory_a_relative_pattern_matches_nothing():
    assert verdict(SRC, write("src/a.py", None)) == "ask"
    assert verdict(SRC, write("/src/a.py", None)) == "ask"


def test_a_link_does_not_lead_an_allowed_path_out(tmp_path: Path):
    outside, cwd = tmp_path / "outside", tmp_path / "cwd"
    for folder in (outside, cwd / "src"):
        folder.mkdir(parents=True)
    (cwd / "src/link").symlink_to(outside)
    (cwd / "src/inner").symlink_to(cwd / "src")
    assert verdict(SRC, write("src/link/a.py", cwd)) == "ask"
    assert verdict(SRC, write("src/link/../a.py", cwd)) == "ask"
    assert verdict(SRC, write("src/inner/a.py", cwd)) == "allow"


def test_a_link_is_followed_before_and_after_its_way_back(tmp_path: Path):
    outside, cwd = tmp_path / "outside", tmp_path / "cwd"
    for folder in (outside, cwd / "src/deep/er", cwd / "src/deep/sub"):
        folder.mkdir(parents=True)
    (cwd / "src/link").symlink_to(cwd / "src/deep/er")
    (cwd / "src/sub").symlink_to(outside)
    assert verdict(SRC, write("src/link/../sub/a.py", cwd)) == "ask"


def test_a_path_that_is_too_long_is_nobodys_to_allow(tmp_path: Path):
    long = "a/../" * 2000 + "src/a.py"
    assert verdict(SRC, write(long, tmp_path)) == "ask"
    assert verdict(SRC.replace("allow", "deny"), write(long, tmp_path)) == "deny"


def test_a_working_directory_that_is_a_link_is_one_all_the_same(tmp_path: Path):
    (tmp_path / "real/src").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert verdict(SRC, write("src/a.py", tmp_path / "link")) == "allow"


def test_a_guard_finds_where_a_link_leads(tmp_path: Path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "harmless").symlink_to(tmp_path / "secrets")
    text = rule('path = "secrets/**"', 'action = "deny"')
    assert verdict(text, write("harmless/key", tmp_path)) == "deny"
    assert verdict(text, write("x/../secrets/key", tmp_path)) == "deny"
    assert verdict(text, write("other/key", tmp_path)) == "ask"


@pytest.mark.parametrize("path", ["a/.env", ".env", "/elsewhere/.env", "../.env", ".ENV", " .env"])
def test_a_guard_that_starts_with_two_stars_looks_everywhere(tmp_path: Path, path: str):
    text = rule('path = "**/.env"', 'action = "deny"')
    assert verdict(text, write(path, tmp_path)) == "deny"


def test_an_allowing_rule_with_two_stars_does_not(tmp_path: Path):
    text = rule('path = "**/*.md"', 'action = "allow"')
    assert verdict(text, write("a/b.md", tmp_path)) == "allow"
    assert verdict(text, write("b.md", tmp_path)) == "allow"
    assert verdict(text, write("/elsewhere/b.md", tmp_path)) == "ask"


def test_a_star_stays_within_a_name(tmp_path: Path):
    text = rule('path = "src/*.py"', 'action = "allow"')
    assert verdict(text, write("src/a.py", tmp_path)) == "allow"
    assert verdict(text, write("src/a/b.py", tmp_path)) == "ask"


def test_absolute_and_home_patterns(tmp_path: Path):
    home = tmp_path.resolve()
    text = rule('path = ["/nowhere/*", "~/notes/**"]', 'action = "allow"')
    assert verdict(text, write("/nowhere/a", "/"), home) == "allow"
    assert verdict(text, write(f"{home}/notes/a", "/"), home) == "allow"
    assert verdict(text, write("~/notes/a", "/"), home) == "allow"
    assert verdict(text, write("~/notes/../a", "/"), home) == "ask"
    assert verdict(text, write("/nowhere/a/b", "/"), home) == "ask"


def test_an_expression_sees_the_absolute_path(tmp_path: Path):
    text = rule(r"path = 're:/nowhere/\w+\.py'", 'action = "allow"')
    assert verdict(text, write("a.py", "/nowhere")) == "allow"
    assert verdict(text, write("../etc/a.py", "/nowhere")) == "ask"


def test_every_path_that_is_named_must_be_allowed(tmp_path: Path):
    text = rule('tool = "*"', 'path = "src/**"', 'action = "allow"')
    cwd = str(tmp_path)
    assert verdict(text, JudgedAsk("NotebookEdit", {"notebook_path": "src/a"}, cwd)) == "allow"
    assert verdict(text, JudgedAsk("X", {"path": "src/a", "file_path": "/etc/b"}, cwd)) == "ask"
    assert verdict(text, JudgedAsk("X", {"path": ["src/a"], "file_path": "src/a"}, cwd)) == "ask"
    assert verdict(text, JudgedAsk("X", {}, cwd)) == "ask"


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*.py", True),
        ("**/*.{py,md}", True),
        ("../*", False),
        ("{../..,a}/*", False),
        ("/etc/*", False),
        ("{/etc,a}/*", False),
        ("~/*", False),
    ],
)
def test_a_search_must_stay_in_its_folder(tmp_path: Path, pattern: str, matches: bool):
    text = rule('tool = "Glob"', 'path = "src/**"', 'action = "allow"')
    ask = JudgedAsk("Glob", {"path": "src", "pattern": pattern}, str(tmp_path))
    assert (verdict(text, ask) == "allow") is matches


@pytest.mark.parametrize(
    ("directory", "cwd", "matches"),
    [
        ("~/code/**", "{home}/code/a", True),
        ("~/code/**", "{home}/code", True),
        ("~/code/**", "{home}/code/../private", False),
        ("~/code/*", "{home}/code/a/b", False),
        ("/nowhere/*", "/nowhere/a", True),
        ("**/scratch", "/nowhere/scratch", True),
        ("~", "{home}", True),
    ],
)
def test_the_directory_of_the_session(tmp_path: Path, directory: str, cwd: str, matches: bool):
    home = tmp_path.resolve()
    text = rule('tool = "*"', f'directory = "{directory}"', 'action = "allow"')
    assert (verdict(text, bash("ls", cwd=cwd.format(home=home)), home) == "allow") is matches


# Addresses


def fetch(url: str) -> JudgedAsk:
    return JudgedAsk("WebFetch", {"url": url})


@pytest.mark.parametrize(
    ("url", "matches"),
    [
        ("https://docs.example.org/a", True),
        ("https://DOCS.example.org:443/a?b#c", True),
        ("https://docs.example.org./a", True),
        ("https://example.org/a", False),
        ("http://docs.example.org/a", False),
        ("https://docs.example.org:8443/a", False),
        ("https://evil.com/.example.org/", False),
        ("https://evil.com?.example.org/", False),
        ("https://evil.com#.example.org/", False),
        ("https://docs.example.org@evil.com/", False),
        ("https://evil.com\\@docs.example.org/", False),
        ("https://evil.com\\.example.org/", False),
        ("https://docs.example.org.evil.com/", False),
        ("https://docs%2eexample.org/", False),
        ("https://docs.example.org/\n", False),
        ("docs.example.org/a", False),
    ],
)
def test_a_star_in_an_address_reaches_over_no_border(url: str, matches: bool):
    text = rule('url = "https://*.example.org/*"', 'action = "allow"')
    assert (verdict(text, fetch(url)) == "allow") is matches


@pytest.mark.parametrize("way", ["..", "%2e%2E", ".%2e", "a%2f..", "."])
def test_an_address_does_not_climb(way: str):
    text = rule('url = "https://example.org/ours/*"', 'action = "allow"')
    assert verdict(text, fetch("https://example.org/ours/a?b=../c")) == "allow"
    assert verdict(text, fetch(f"https://example.org/ours/{way}/theirs")) == "ask"


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.com/a",
        "http://evil.com:80/",
        "HTTPS://EVIL.COM",
        "https://me@evil.com/",
        "https://evil.com\\@example.org/",
        "https:/evil.com",
        "https:evil.com",
        "//evil.com/",
        "evil.com/a",
        "evil.com:8080/a",
        "https://evil%2ecom/",
        "https://ev\til.com/",
        "https://evil.com./",
        "https://\uff45vil.com/",
    ],
)
def test_a_guarded_domain_is_found_however_it_is_written(url: str):
    assert verdict(rule('domain = "evil.com"', 'action = "deny"'), fetch(url)) == "deny"


def test_a_domain_is_a_host_alone():
    text = rule('domain = ["example.org", "*.example.org"]', 'action = "allow"')
    assert verdict(text, fetch("https://example.org/a")) == "allow"
    assert verdict(text, fetch("https://a.b.example.org:8443/a")) == "allow"
    assert verdict(text, fetch("https://badexample.org/a")) == "ask"
    assert verdict(text, fetch("ftp://example.org/a")) == "ask"


def test_a_guarded_address_is_found_behind_a_detour():
    text = rule('url = "*://example.org/admin/*"', 'action = "deny"')
    assert verdict(text, fetch("https://example.org/x/../admin/a")) == "deny"
    assert verdict(text, fetch("https://example.org/%61dmin/a")) == "deny"
    assert verdict(text, fetch("https://example.org/a")) == "ask"
