"""Regular expressions that take no longer than their text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.engine.policy.effort import TooMuch, bounded, spend
from pilothouse.engine.policy.expressions import Expression

ONES = ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\.", "()", "{", "]", r"\x61", "[]a]", "[a-]", " "]
REPEATS = ["", "", "*", "+", "?", "{2}", "{1,2}", "{0,2}", "{1,}", "{,2}", "{,}", "{0}", "*?", "??"]


def wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeated = st.tuples(inner, st.sampled_from(REPEATS)).map(lambda two: f"(?:{two[0]}){two[1]}")
    return st.lists(repeated, min_size=1, max_size=3).flatmap(
        lambda parts: st.sampled_from(["".join(parts), f"({'|'.join(parts)})"])
    )


ones = st.tuples(st.sampled_from(ONES), st.sampled_from(REPEATS)).map("".join)
sources = st.recursive(ones, wrapped, max_leaves=6)


@settings(deadline=None, max_examples=400)
@given(sources, st.lists(st.text("aAb.{] \n", max_size=6), max_size=8), st.booleans())
def test_it_fits_what_python_says_it_fits(source: str, texts: list[str], caseless: bool):
    flags = re.DOTALL | (re.IGNORECASE if caseless else 0)
    python, ours = re.compile(source, flags), Expression(source, flags)
    for text in ["", *texts]:
        assert ours.fits(text) is (python.fullmatch(text) is not None)


@settings(deadline=None, max_examples=400)
@given(sources, st.lists(st.text("aAb.{] \n", max_size=6), max_size=8))
def test_without_line_ends_it_fits_the_same_and_with_them_never_more(source: str, texts: list[str]):
    python, ours = re.compile(source, re.DOTALL), Expression(source)
    for text in texts:
        assert ours.fits(text) <= (python.fullmatch(text) is not None)
        one_line = text.replace("\n", "")
        assert ours.fits(one_line) is (python.fullmatch(one_line) is not None)


BROAD = [
    "git .*",
    "git [^;]*",
    r"git [\s\S]*",
    r"git [\w\W]+",
    r"git\D+",
    r"git x\s+rm",
    "(?i)git.+",
]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("source", BROAD)
def test_what_stands_for_many_characters_stops_at_the_end_of_a_line(source: str, end: str):
    assert not Expression(source).fits(f"git x{end}rm")
    assert Expression(source).fits("git x rm")


@pytest.mark.parametrize("source", BROAD)
def test_dotall_lets_it_go_on_in_the_next_line(source: str):
    opened = source.replace("(?i)", "(?is)") if source.startswith("(?i)") else f"(?s){source}"
    assert Expression(opened).fits("git x\nrm")
    assert Expression(source, re.DOTALL).fits("git x\nrm")


@pytest.mark.parametrize("source", [r"a\nb", r"a[\n;]b", "a\nb", r"a\x0ab", "a(b|\n)b"])
def test_the_end_of_a_line_that_is_written_out_fits(source: str):
    assert Expression(source).fits("a\nb")


@pytest.mark.parametrize("text", ["git x\n", "\ngit x", "ls\ngit x", "git x\nls"])
def test_start_and_end_are_those_of_the_text_not_of_a_line(text: str):
    assert Expression("^git x$").fits("git x")
    assert not Expression("^git x$").fits(text)


@pytest.mark.parametrize(
    ("source", "fits", "fits_not"),
    [
        ("git (status|log)( .*)?", "git log -p", "git push"),
        ("git (status|log)( .*)?", "git log", "git log -p\n"),
        ("^git (?P<what>log|diff)$", "git diff", "git diff\n"),
        (r"(?i)\d{4}-[a-f]+", "2024-AbC", "2024-xyz"),
        (r"\u00e9|\$|\||", "\u00e9", "e"),
        ("(a{2}){3}|b{2,}", "aaaaaa", "aaaaa"),
    ],
)
def test_it_is_for_the_whole_text(source: str, fits: str, fits_not: str):
    assert Expression(source).fits(fits)
    assert not Expression(source).fits(fits_not)


@pytest.mark.parametrize(
    "source",
    [
        *("(?=a)a", "(?!a)b", "(?<=a)b", r"(a)\1", "(?P<x>a)(?P=x)", r"a\b", "a*+", "(?>a)"),
        *("a^", "a$b", "(?x) a", "(?i:a)", "(?#a)b", r"\Aa", "(a)(?(1)b)"),
    ],
)
def test_what_needs_a_second_look_is_refused(source: str):
    with pytest.raises(ValueError, match=r"which is not for a policy: only groups"):
        Expression(source)


@pytest.mark.parametrize(
    "source", ["a{1001}", "(a{40}){40}", "((a{99}){99}){99}", "(a|b){600}", "a" * 1001]
)
def test_what_is_too_long_is_refused(source: str):
    with pytest.raises(ValueError, match="too long"):
        Expression(source)


def test_nothing_repeated_is_nothing():
    assert Expression("((){9999}){9999}a").fits("a")


@pytest.mark.parametrize(
    "source", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*)*b", "(a?){30}a{30}b", ".*a.*a.*a.*a.*b"]
)
def test_no_expression_takes_longer_than_its_text(source: str):
    text = "a" * 30_000
    with bounded(16 * len(text)):
        assert not Expression(source).fits(text)
        assert Expression(source).fits("a" * 50 + "b")


def test_work_is_counted_before_it_is_done():
    with bounded(10):
        spend(10)
        with pytest.raises(TooMuch):
            Expression("a").fits("a")
    spend(1_000_000_000)
