"""What is new, what is missing, and what the CLI has by now."""

from __future__ import annotations

import pytest

from pilothouse.doors import dialect_lines
from pilothouse.doors.dialect_lines import Head, Hearing, Outbox, read_head
from tests.support.doors.dialler import answer, line, request, said


def head(uuid: str) -> Head:
    return Head(type="assistant", uuid=uuid)


def hearing() -> tuple[Hearing, list[str]]:
    lost: list[str] = []
    return Hearing(lost.append), lost


def test_a_line_twice_on_one_connection_is_two_lines() -> None:
    heard, _ = hearing()
    heard.connected(None)
    assert [heard.is_new(head("a")), heard.is_new(head("a"))] == [True, True]


def test_the_echo_of_a_prompt_that_was_sent_twice_is_one_line() -> None:
    heard, _ = hearing()
    heard.connected(None)
    echo = Head(type="user", uuid="u", is_replay=True)
    assert [heard.is_new(echo), heard.is_new(echo)] == [True, False]


def test_a_repetition_cut_half_way_is_no_loss() -> None:
    heard, lost = hearing()
    heard.connected(None)
    heard.is_new(head("a"))
    heard.connected("c")
    assert not heard.is_new(head("a"))
    heard.connected("d")
    assert [heard.is_new(head(each)) for each in "abcd"] == [False, True, True, True]
    assert lost == []
    assert not heard.is_missing


def test_more_than_a_cli_repeats_is_a_loss() -> None:
    heard, lost = hearing()
    heard.connected(None)
    heard.is_new(head("a"))
    heard.connected("z")
    assert heard.is_new(head("y"))
    assert len(lost) == 1
    assert heard.is_new(head("z"))
    heard.give_up()
    assert len(lost) == 1


def test_what_was_lost_before_anything_came_stays_missing_over_a_second_cut() -> None:
    heard, lost = hearing()
    heard.connected("a")
    heard.is_new(head("b"))
    heard.connected("b")
    heard.is_new(head("c"))
    assert len(lost) == 1


def test_only_so_many_names_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect_lines, "REMEMBERED", 2)
    heard, _ = hearing()
    for name in "abc":
        assert heard.is_new_event(head(name))
    assert [heard.is_new_event(head(name)) for name in "cba"] == [False, False, True]


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[]", b'{"uuid":1}', b'{"response":3}'])
def test_what_is_no_message_has_an_empty_head(line: bytes) -> None:
    assert read_head(line) == Head()


def test_nothing_is_due_twice_on_one_connection() -> None:
    outbox = Outbox()
    outbox.connected()
    outbox.put(line(said("a", "user")) + b'{"half"')
    assert outbox.take() == line(said("a", "user"))
    assert (outbox.take(), outbox.waiting) == (b"", 0)
    outbox.put(b":1}\n")
    assert outbox.take() == b'{"half":1}\n'


def test_what_has_no_name_is_never_sent_again() -> None:
    outbox = Outbox()
    outbox.put(line({"type": "user"}) + line({"type": "keep_alive"}))
    outbox.take()
    outbox.put(line({"type": "user", "later": True}))
    outbox.connected()
    assert outbox.take() == line({"type": "user", "later": True})


def test_an_interrupt_is_sent_again_only_if_nothing_was_written_after_it() -> None:
    outbox = Outbox()
    outbox.put(line(request("i", "interrupt")))
    outbox.take()
    outbox.connected()
    assert outbox.take() == line(request("i", "interrupt"))
    outbox.put(line(said("u", "user")))
    outbox.connected()
    assert outbox.take() == line(said("u", "user"))


def test_an_echo_shows_that_all_before_it_has_arrived() -> None:
    outbox = Outbox()
    outbox.put(line(answer("p")) + line(said("u", "user")) + line(said("v", "user")))
    outbox.take()
    outbox.confirm(Head(type="user", uuid="u", is_replay=True))
    outbox.connected()
    assert outbox.take() == line(said("v", "user"))


def test_only_so_much_is_kept_to_be_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect_lines, "KEPT_LINES", 2)
    outbox = Outbox()
    for name in "abcd":
        outbox.put(line(said(name, "user")))
    outbox.take()
    outbox.connected()
    assert outbox.take() == line(said("c", "user")) + line(said("d", "user"))
