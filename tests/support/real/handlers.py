"""What the tests of questions and answers share: handlers that remember, and what was told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from pilothouse_sim.scenario import ToolCall, tool
from tests.support.real.desk import Desk, conversation


class Handler:
    """Answers requests in turn with the given answers, the last one for all that follow.

    An answer that is a function is called with the request, one that is an error is raised.
    """

    def __init__(self, *answers: Any) -> None:
        self.requests: list[Any] = []
        self._answers = list(answers)

    async def __call__(self, request: Any) -> Any:
        self.requests.append(request)
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer(request) if isinstance(answer, Callable) else answer


class Holding:
    """A handler that waits for ever, and tells when it began and that it was cancelled."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, *_: Any) -> Any:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def bash(command: str) -> ToolCall:
    """A call of Bash. Every CLI asks about it if the command writes something."""
    return tool("Bash", command=command, description="Do it")


def results(it: Desk) -> list[str]:
    """The texts of all tool results the model was told by its last request, in order."""
    messages = conversation(it)[-1].body["messages"]
    return [_text(block.get("content")) for block in _blocks(messages, "tool_result")]


def result_blocks(it: Desk) -> list[dict[str, Any]]:
    """The tool results the model was told by its last request, as they are on its wire."""
    return list(_blocks(conversation(it)[-1].body["messages"], "tool_result"))


def _blocks(messages: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    for message in messages:
        if isinstance(message["content"], list):
            yield from (block for block in message["content"] if block["type"] == kind)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(block.get("text", "") for block in content)
    return content or ""
