"""One conversation with the model: what was said, and the lines that say it to the client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.prompts import words_of

if TYPE_CHECKING:
    from pilothouse_sim.simulator.agent_kinds import AgentPart
    from pilothouse_sim.simulator.flags import LaunchFlags
    from pilothouse_sim.simulator.mcp import McpServers
    from pilothouse_sim.simulator.prompts import ClientPrompt
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally
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
        agent: AgentPart | None = None,
    ) -> None:
        self._state = state
        self._transcript = transcript
        self._mcp = mcp
        self.thread = thread
        self.is_main = thread.is_main
        self.partial = thread.is_main and state.launch.include_partial_messages
        self.messages: list[dict[str, Any]] = []
        self.agent = agent
        """The sub-agent whose conversation it is."""
        self.system = _system_prompt(state.launch) if agent is None else agent.kind.prompt
        self.tokens = 0
        """The size of the conversation, by the last reply's account."""
        self.dropped = 0
        """Tokens that compactions have saved."""
        self._is_silent = False
        self._to_echo: list[ClientPrompt] = []

    @property
    def model(self) -> str:
        """The model that is asked."""
        given = self.agent.kind.model if self.agent else None
        return facts.resolve_model(given) if given else self._state.request_model()

    def offered(self, names: list[str]) -> list[str]:
        """Which of the session's tools the model has here."""
        return self.agent.kind.offered(names) if self.agent else names

    # What is said

    def hear(self, prompt: ClientPrompt) -> None:
        """Take a prompt into the conversation; it is echoed when the model begins to answer."""
        self.add("user", prompt.told)
        self._to_echo.append(prompt)

    def take_errand(self, prompt: ClientPrompt) -> None:
        """Begin with what a sub-agent is sent for; the client is told of what its turn waits for.

        The prompt of one that works beside the turn is in `task_started` alone.
        """
        self.add("user", prompt.content)
        if self.agent is not None and not self.agent.is_background:
            message = {"role": "user", "content": [{"type": "text", "text": prompt.content}]}
            own, labels = prompt.own_id, self.thread.labels
            self._send("user", message=message, **labels, uuid=own, timestamp=timestamp())

    def fall_silent(self) -> None:
        """Tell the client nothing more: the agent's turn was interrupted."""
        self._is_silent = True

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
        is_waited_for = self.agent is not None and not self.agent.is_background
        if is_waited_for:
            self._tell_progress(message)
        own = self._send(
            "assistant",
            is_told=self._is_told(message),
            message=message,
            **self.thread.labels,
            timestamp=timestamp(),
            **extra,
            **self._mcp.call_meta(message["content"]),
            **(tally.announce() if self.is_main else {}),
        )
        self._transcript.assistant(self.thread, message, own, extra)
        if not is_waited_for:
            self._tell_progress(message)

    def _tell_progress(self, message: dict[str, Any]) -> None:
        for block in message["content"]:
            if self.agent is not None and block["type"] == "tool_use":
                self.agent.progress.called(block["name"], block["input"])

    def _is_told(self, message: dict[str, Any]) -> bool:
        if self.agent is None or self.agent.is_heard:
            return True
        return any(block["type"] == "tool_use" for block in message["content"])

    def write_user(self, content: Any, **extra: Any) -> None:
        """Write a line of the user's side: a tool's result, or a note of the CLI's."""
        message = {"role": "user", "content": content}
        own = self._send(
            "user", message=message, **self.thread.labels, timestamp=timestamp(), **extra
        )
        self._transcript.user(self.thread, message, own, extra)

    def _send(self, type_: str, /, *, is_told: bool = True, **fields: Any) -> str:
        """Write a line, unless it is not for the client; return its uuid."""
        if is_told and not self._is_silent:
            return self._state.outlet.send(type_, **fields)
        return new_id()


def _system_prompt(launch: LaunchFlags) -> str:
    """What the command line tells the model before anything is said."""
    own = _read(launch.system_prompt, launch.system_prompt_file)
    return "\n".join(
        filter(None, (own, _read(launch.append_system_prompt, launch.append_system_prompt_file)))
    )


def _read(words: str | None, file: str | None) -> str:
    return words or (Path(file).read_text() if file else "")
