"""In which tasks handlers run, and what reaches the CLI of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from pilothouse.client.channel import Channel, Listener
from pilothouse.client.inbox import Inbox
from pilothouse.client.turns import Turn
from pilothouse.protocol import RequestReceived
from pilothouse.transport import Exit

DEADLINE = 10.0
NAME: ContextVar[str] = ContextVar("NAME", default="nobody")

Handler = Callable[[str], Awaitable[Any]]


@pytest.fixture(autouse=True)
async def deadline() -> Any:
    async with asyncio.timeout(DEADLINE):
        yield


class Wire:
    """A transport that keeps what is written to it."""

    pid = 1
    stderr_tail = ""

    def __init__(self) -> None:
        self.writes: list[list[str]] = []
        self.errors: list[str] = []
        self.wrote = asyncio.Event()

    async def start(self, receiver: object) -> None:
        return

    def write(self, data: bytes) -> None:
        answers = [json.loads(line)["response"] for line in data.splitlines()]
        self.writes.append([each["request_id"] for each in answers])
        self.errors += [each["error"] for each in answers if each["subtype"] == "error"]
        self.wrote.set()

    async def drain(self) -> None:
        return

    def close_stdin(self) -> None:
        return

    def signal(self, number: int) -> None:
        return

    async def aclose(self, *, grace: float = 5.0) -> Exit:
        return Exit(0, None, "")


class House:
    """A channel whose handlers get the ids of the requests they answer."""

    def __init__(self, handler: Handler) -> None:
        self.wire = Wire()
        self.heard: list[str] = []
        self._handler = handler
        listener = Listener(self._received, lambda *_: None, str, lambda _: None)
        self.channel = Channel(self.wire, listener, self._answer)

    def _received(self, events: list[Any], *_: object) -> list[Turn]:
        self.heard += map(_id_of, events)
        return []

    async def _answer(self, event: RequestReceived) -> Any:
        return await self._handler(event.request_id)

    def ask(self, *ids: str) -> None:
        self.channel.data_received(b"".join(_line("control_request", each) for each in ids))

    def withdraw(self, request_id: str) -> None:
        self.channel.data_received(_line("control_cancel_request", request_id))

    async def answered(self, *ids: str) -> None:
        while not set(ids) <= {each for write in self.wire.writes for each in write}:
            self.wire.wrote.clear()
            await self.wire.wrote.wait()

    async def warm(self) -> None:
        """Let a handler return without waiting, and the event loop go round."""
        self.ask("first")
        await self.answered("first")
        await asyncio.sleep(0)
        self.wire.writes.clear()
        self.heard.clear()

    async def aclose(self) -> None:
        await self.channel.aclose(0)


def _id_of(event: Any) -> str:
    return event.request_id


def _line(kind: str, request_id: str) -> bytes:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}}
    return json.dumps({"type": kind, "request_id": request_id, "request": request}).encode() + b"\n"


async def at_once(request_id: str) -> dict[str, Any]:
    return {}


async def test_once_a_handler_never_waited_the_next_are_answered_in_the_same_call() -> None:
    house = House(at_once)
    await house.warm()
    house.ask("a", "b", "c")
    assert house.wire.writes == [["a", "b", "c"]]
    await house.aclose()


async def test_the_first_handler_of_all_is_not_run_by_the_reader() -> None:
    house = House(at_once)
    house.ask("a")
    assert house.wire.writes == []
    await house.answered("a")
    await house.aclose()


async def test_what_came_with_a_request_is_delivered_before_its_handler_runs() -> None:
    heard: list[list[str]] = []
    house = House(at_once)
    await house.warm()

    async def look(request_id: str) -> dict[str, Any]:
        heard.append(list(house.heard))
        return {}

    house._handler = look
    house.ask("a", "b")
    assert heard == [["a", "b"], ["a", "b"]]
    await house.aclose()


async def test_a_handler_that_waits_after_all_goes_on_in_the_task_it_began_in() -> None:
    house, go_on = House(at_once), asyncio.Event()
    await house.warm()
    tasks: list[Any] = []

    async def wait(request_id: str) -> dict[str, Any]:
        tasks.append(asyncio.current_task())
        await go_on.wait()
        tasks.append(asyncio.current_task())
        return {}

    house._handler = wait
    house.ask("a")
    assert house.wire.writes == []
    go_on.set()
    await house.answered("a")
    before, after = tasks
    assert before is after
    assert before is not asyncio.current_task()
    await house.aclose()


async def test_a_handler_that_waits_holds_up_neither_the_reader_nor_the_others() -> None:
    house, never = House(at_once), asyncio.Event()
    await house.warm()

    async def some_wait(request_id: str) -> dict[str, Any]:
        if request_id == "slow":
            await never.wait()
        return {}

    house._handler = some_wait
    house.ask("a", "slow", "b")
    assert house.wire.writes == [["a"]]
    await house.answered("b")
    house.ask("c")
    await house.answered("c")
    await house.aclose()


async def test_a_timeout_of_a_handler_that_began_with_the_reader_ends_its_waiting() -> None:
    house = House(at_once)
    await house.warm()
    ends: list[str] = []

    async def give_up(request_id: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            ends.append("timed out")
        return {}

    house._handler = give_up
    house.ask("a")
    await house.answered("a")
    assert ends == ["timed out"]
    await house.aclose()


@pytest.mark.parametrize("rounds", [0, 1, 3])
async def test_a_request_that_is_taken_back_cancels_its_handler_at_any_moment(rounds: int) -> None:
    house, cancelled = House(at_once), asyncio.Event()
    await house.warm()

    async def wait(request_id: str) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return {}

    house._handler = wait
    house.ask("a")
    for _ in range(rounds):
        await asyncio.sleep(0)
    house.withdraw("a")
    await cancelled.wait()
    await house.aclose()
    assert house.wire.writes == []


async def test_what_a_handler_waits_for_is_cancelled_with_it() -> None:
    house, cancelled = House(at_once), asyncio.Event()
    await house.warm()

    async def inner() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def wait(request_id: str) -> dict[str, Any]:
        await asyncio.create_task(inner())
        return {}

    house._handler = wait
    house.ask("a")
    await asyncio.sleep(0)
    house.withdraw("a")
    await cancelled.wait()
    await house.aclose()


async def test_a_request_that_is_taken_back_at_once_reaches_no_handler() -> None:
    asked: list[str] = []
    house = House(at_once)
    await house.warm()

    async def note(request_id: str) -> dict[str, Any]:
        asked.append(request_id)
        return {}

    house._handler = note
    taken_back = _line("control_request", "a") + _line("control_cancel_request", "a")
    house.channel.data_received(taken_back + _line("control_request", "b"))
    assert asked == ["b"]
    assert house.heard == ["a", "a", "b"]
    await house.aclose()


async def test_a_handler_that_fails_is_told_to_the_cli_and_the_next_is_answered() -> None:
    house = House(at_once)
    await house.warm()

    async def fail(request_id: str) -> dict[str, Any]:
        if request_id == "a":
            raise ValueError("no idea")
        return {}

    house._handler = fail
    house.ask("a", "b")
    assert house.wire.writes == [["a", "b"]]
    assert house.wire.errors == ["ValueError: no idea"]
    await house.aclose()


async def test_an_answer_that_is_no_json_is_told_to_the_cli_as_a_failure() -> None:
    house = House(at_once)
    await house.warm()

    async def answer(request_id: str) -> Any:
        return {"a": object()}

    house._handler = answer
    house.ask("a")
    assert house.wire.writes == [["a"]]
    assert house.wire.errors == ["TypeError: Encoding objects of type object is unsupported"]
    await house.aclose()


async def test_a_handler_that_cancels_its_own_task_takes_no_other_along() -> None:
    house = House(at_once)
    await house.warm()

    async def cancel(request_id: str) -> dict[str, Any]:
        task = asyncio.current_task()
        assert task is not None
        if request_id == "a":
            task.cancel()
            raise asyncio.CancelledError
        return {}

    house._handler = cancel
    house.ask("a", "b")
    await house.answered("b")
    house.ask("c")
    await house.answered("c")
    await house.aclose()


async def test_no_handler_sees_what_another_put_into_the_context() -> None:
    house = House(at_once)
    await house.warm()
    seen: list[tuple[str, str]] = []

    async def look(request_id: str) -> dict[str, Any]:
        before = NAME.get()
        NAME.set(request_id)
        if request_id == "c":
            await asyncio.sleep(0)
        seen.append((before, NAME.get()))
        return {}

    house._handler = look
    house.ask("a", "b", "c")
    await house.answered("c")
    assert seen == [("nobody", "a"), ("nobody", "b"), ("nobody", "c")]
    assert NAME.get() == "nobody"
    await house.aclose()


async def test_a_transport_may_deliver_from_within_a_task_which_stays_the_current_one() -> None:
    house = House(at_once)
    await house.warm()
    ours = asyncio.current_task()
    tasks: list[Any] = []

    async def look(request_id: str) -> dict[str, Any]:
        tasks.append(asyncio.current_task())
        return {}

    house._handler = look
    house.ask("a")
    assert asyncio.current_task() is ours
    assert tasks != [ours]
    assert tasks != [None]
    await house.aclose()


async def test_no_task_is_left_when_the_cli_has_ended() -> None:
    before = asyncio.all_tasks()
    house = House(at_once)
    await house.warm()
    assert asyncio.all_tasks() != before
    house.channel.exited(Exit(0, None, ""))
    for _ in range(5):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_reader_gets_what_came_quietly_with_the_next_or_a_moment_later() -> None:
    inbox: Inbox[int] = Inbox()
    read: list[int] = []
    came = asyncio.Event()

    async def reading() -> None:
        async for each in inbox.read():
            read.append(each)
            came.set()

    reader = asyncio.create_task(reading())
    await asyncio.sleep(0)
    inbox.put_soon([1])
    inbox.put([2])
    await came.wait()
    assert read == [1, 2]
    came.clear()
    inbox.put_soon([3])
    await asyncio.sleep(0)
    assert read == [1, 2]
    await came.wait()
    inbox.put_soon([4])
    inbox.close()
    await reader
    assert read == [1, 2, 3, 4]
