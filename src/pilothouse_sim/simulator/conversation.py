"""One conversation with the model: what was said, and the lines that say it to the client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.prompts import words_of

if TYPE_CHECKING:
    from pilothouse_sim.simulator.flags import LaunchFlags
    from pilothouse_sim.simulator.mcp import McpServers
    from pilothouse_sim.simulator.prompts import ClientPrompt
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.tasks import Progress
    from pilothouse_sim.simulator.transcript import Thread, TranscriptFile

__all__ = ["ModelConversation"]


class ModelConversation:
    """The session's own conversation, or a sub-agent's."""

    def __init__(
        self,
        state: SessionState,
        transcript: TranscriptFile,
        mcp: McpServers,
        thread: Thread,
        progress: Progress | None = None,
    ) -> None:
        self._state = state
        self._transcript = transcript
        self._mcp = mcp
        self.thread = thread
        self.is_main = thread.is_main
        self.partial = thread.is_main and state.launch.include_partial_messages
        self.messages: list[dict[str, Any]] = []
        self.system = _system_prompt(state.launch) if thread.is_main else ""
        self.tokens = 0
        """The size of the conversation, by the last reply's account."""
        self.dropped = 0
        """Tokens that compactions have saved."""
        self._progress = progress
        """Who is told of the tools that a sub-agent calls."""
        self._to_echo: list[ClientPrompt] = []

    # What is said

    def hear(self, prompt: ClientPrompt) -> None:
        """Take a prompt into the conversation; it is echoed when the model begins to answer."""
        self.add("user", prompt.told)
        self._to_echo.append(prompt)

    def add(self, role: str, content: Any) -> None:
        """Add to what the model will be told."""
        self.messages.append({"role": role, "content": content})

    def forget(self) -> None:
        """Begin again with nothing said."""
        self.messages = []
        self.tokens = self.dropped = 0

    def first_words(self) -> str:
        """The words of the first prompt."""
        return next((words_of(each["content"]) for each in self.messages), "")

    # Lines

    def echo_prompts(self) -> None:
        """Repeat the prompts of the turn to clients that asked for it."""
        prompts, self._to_echo = self._to_echo, []
        for prompt in prompts:
            self.echo(prompt)

    def echo(self, prompt: ClientPrompt, *, timed: bool = True) -> None:
        """Repeat one prompt to clients that asked for it."""
        if self._state.launch.replay_user_messages:
            self._state.outlet.send(
                "user",
                message={"role": "user", "content": prompt.content},
                parent_tool_use_id=None,
                uuid=prompt.own_id,
                **({"timestamp": timestamp()} if timed else {}),
                isReplay=True,
            )

    def note(self, words: str, tally: Tally, **extra: Any) -> None:
        """Tell the model something in the user's place, and the client that it was told."""
        block = {"type": "text", "text": words}
        self.add("user", [block])
        tally.user_lines += 1
        self.echo_prompts()
        self.write_user([block], isSynthetic=True, **extra)

    def say_interrupted(self, words: str) -> None:
        """Write the note that the user stepped in."""
        block = {"type": "text", "text": words}
        self.add("user", [block])
        self.write_user([block])

    def write_assistant(self, message: dict[str, Any], tally: Tally, **extra: Any) -> None:
        """Write a line of the model's."""
        own = self._state.outlet.send(
            "assistant",
            message=message,
            **self.thread.labels,
            timestamp=timestamp(),
            **extra,
            **self._mcp.call_meta(message["content"]),
            **(tally.announce() if self.is_main else {}),
        )
        self._transcript.assistant(self.thread, message, own, extra)
        for block in message["content"]:
            if self._progress is not None and block["type"] == "tool_use":
                self._progress.called(block["name"], block["input"])

    def write_user(self, content: Any, **extra: Any) -> None:
        """Write a line of the user's side: a tool's result, or a note of the CLI's."""
        message = {"role": "user", "content": content}
        own = self._state.outlet.send(
            "user", message=message, **self.thread.labels, timestamp=timestamp(), **extra
        )
        self._transcript.user(self.thread, message, own, extra)


def _system_prompt(launch: LaunchFlags) -> str:
    """What the command line tells the model before anything is said."""
    own = _read(launch.system_prompt, launch.system_prompt_file)
    return "\n".join(
        filter(None, (own, _read(launch.append_system_prompt, launch.append_system_prompt_file)))
    )


def _read(words: str | None, file: str | None) -> str:
    return words or (Path(file).read_text() if file else "")
