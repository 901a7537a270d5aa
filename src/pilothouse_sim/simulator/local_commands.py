"""What the CLI's own commands say when they are sent as a prompt.

Short answers are the CLI's own words, because clients may look for them; long ones are shorter
here. Each takes the session and what follows the command's name, and returns its answer.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.controls.base import ControlAsk
from pilothouse_sim.simulator.controls.context import get_context_usage

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["EXTRA_FIELDS", "LOCAL_COMMANDS"]

Answer = Callable[["SimulatedSession", str], str]
LocalCommand = Callable[["SimulatedSession", str], Awaitable[str]]

_COLORS: Final = ("red", "blue", "green", "yellow", "purple", "orange", "pink", "cyan", "default")
_EFFORTS: Final = {
    "low": "Quick, straightforward implementation with minimal overhead",
    "medium": "Balanced approach with standard implementation and testing",
    "high": "Comprehensive implementation with extensive testing and documentation",
    "xhigh": "Deeper reasoning than high, just below maximum (on supported models)",
    "max": "Maximum capability with deepest reasoning. May use excessive tokens resulting in long "
    "response times or overthinking. Use sparingly for the hardest tasks.",
}
_EFFORT_WORDS: Final = "low, medium, high, xhigh, max, auto, ultracode [on|off]"
_MODELS: Final = (
    "sonnet, opus, haiku, fable, best, sonnet[1m], opus[1m], fable[1m], opusplan, default"
)
_NO_SERVERS: Final = "No MCP servers are configured. Add one with `claude mcp add`."
_MCP_USAGE: Final = (
    "Usage: /mcp [reconnect|enable|disable [<server>|all]]. With no server name, applies to all."
)


# How the session works


def _set_model(session: SimulatedSession, args: str) -> str:
    if not args:
        shown = _model_label(session.state.desk.model_given or "default")
        return (
            f"Current model: `{shown}`\n"
            f"Usage: /model <name>. Available: {_MODELS}, or a full model ID."
        )
    session.state.model_name = facts.resolve_model(args)
    session.state.desk.model_given = args
    said = f"Set model to `{_model_label(args)}` for this session only"
    if facts.is_known_model(session.state.model_name):
        return said
    return f'{said}\nClaude Code doesn\'t recognize the model "{args.replace(" ", "")}".'


def _model_label(given: str) -> str:
    if given == "opusplan":
        return "Opus in plan mode, else Sonnet"
    resolved = facts.resolve_model(given)
    if not facts.is_known_model(resolved):
        return given
    words = facts.model(resolved).id.removeprefix("claude-").split("-")
    label = f"{words[0].capitalize()} {'.'.join(words[1:])}"
    return f"{label} (default)" if given == "default" else label


def _set_effort(session: SimulatedSession, args: str) -> str:
    if not args:
        return f"Usage: /effort <{_EFFORT_WORDS.replace(', ', '|')}>"
    if args == "auto":
        return "Effort level set to auto (this session only)"
    if args not in _EFFORTS:
        return f"Invalid argument: {args}. Valid options are: {_EFFORT_WORDS}"
    return f"Set effort level to {args} (this session only): {_EFFORTS[args]}"


def _set_autocompact(session: SimulatedSession, args: str) -> str:
    window = f"Auto-compact window for {_model_label(session.state.model_name)}"
    if not args:
        size = _short(facts.model(session.state.model_name).context_window)
        return f"{window}: {size} tokens (default for this model)"
    if args == "auto":
        return f"{window} set to auto"
    number = args.removesuffix("k")
    if not number.isdigit():
        return (
            f"Couldn't parse '{args}'. Expected 'auto' or 100k\u20131M tokens "
            "(e.g. 500k, 200000, or 200 as shorthand)"
        )
    tokens = int(number) * (1 if int(number) >= 1000 else 1000)
    return f"{window} set to {_short(tokens)} tokens"


def _set_color(session: SimulatedSession, args: str) -> str:
    if args not in _COLORS:
        return f'Invalid color "{args}". Available colors: {", ".join(_COLORS)}'
    if args == "default":
        return "Session color reset to default"
    return f"Session color set to: {args}"


def _set_style(session: SimulatedSession, args: str) -> str:
    styles = session.state.catalog.output_styles
    if not args:
        listed = "\n".join(("Available styles:", *(f"- {style}" for style in styles)))
        return f"Output style: default\n\n{listed}\n\nUsage: /output-style <style>"
    if args not in styles:
        return f'Unknown output style "{args}". Available styles: {", ".join(styles)}'
    return f"Output style set to {args}"


def _set_option(session: SimulatedSession, args: str) -> str:
    if args and "=" not in args:
        return f'Expected key=value, got "{args}". Run /config to see what\'s available.'
    return "Usage: /config key=value [key=value ...]"


def _set_fast(session: SimulatedSession, args: str) -> str:
    if args not in ("", "on", "off"):
        return f'Unknown argument "{args}". Use: /fast [on|off]'
    return "Fast mode unavailable: Fast mode is not available in the Agent SDK"


def _steer_servers(session: SimulatedSession, args: str) -> str:
    action = args.split()[0] if args else ""
    if action not in ("", "reconnect", "enable", "disable"):
        return f'"{action}" isn\'t a recognized /mcp action. Try reconnect, enable, or disable.'
    servers = [each["name"] for each in session.mcp.listing()]
    said = "\n".join(servers) or _NO_SERVERS
    return said if action else f"{said}\n{_MCP_USAGE}"


# Reports


def _report_usage(session: SimulatedSession, args: str) -> str:
    ledger = session.state.ledger
    lines = [
        f"Total cost:            {_dollars(ledger.cost)}",
        f"Total duration (API):  {ledger.api_ms // 1000}s",
        f"Total duration (wall): {int(time.monotonic() - session.began)}s",
        "Total code changes:    0 lines added, 0 lines removed",
        "Usage by model:",
    ]
    lines += [_spent_on(name, entry) for name, entry in ledger.by_model().items()]
    return "\n".join([*lines, _cache_line(ledger.calls)])


def _cache_line(calls: int) -> str:
    requests = "1 request" if calls == 1 else f"{calls} requests"
    return (
        f"Prompt cache (main):   {requests} · 0% of input tokens from cache · no misses · "
        "no prompt caching reported by the API"
    )


def _spent_on(name: str, entry: dict[str, Any]) -> str:
    kinds = (
        ("inputTokens", "input"),
        ("outputTokens", "output"),
        ("cacheReadInputTokens", "cache read"),
        ("cacheCreationInputTokens", "cache write"),
    )
    counts = ", ".join(f"{_short(entry[key])} {kind}" for key, kind in kinds)
    return f"{name + ':':>21}  {counts} ({_dollars(entry['costUSD'])})"


def _report_context(session: SimulatedSession, args: str) -> str:
    report = get_context_usage(session, ControlAsk("", {}))
    used, window = report["totalTokens"], report["maxTokens"]
    rows = [
        f"| {each['name']} | {_short(each['tokens'])} | {each['tokens'] * 100 / window:.1f}% |"
        for each in report["categories"]
    ]
    table = "\n".join(
        ("| Category | Tokens | Percentage |", "|----------|--------|------------|", *rows)
    )
    head = f"**Model:** {session.state.model_name}  \n**Tokens:** {_short(used)} / {_short(window)}"
    return (
        f"## Context Usage\n\n{head} ({report['percentage']}%)\n\n"
        f"### Estimated usage by category\n\n{table}"
    )


def _context_fields(session: SimulatedSession) -> dict[str, Any]:
    """The report of /context, for clients that show it in their own way."""
    report = get_context_usage(session, ControlAsk("", {}))
    skills = report.get("skills", {}).get("skillFrontmatter", [])
    usage = {
        "model": report["model"],
        "total_tokens": report["totalTokens"],
        "raw_max_tokens": report["rawMaxTokens"],
        "percentage": report["percentage"],
        "categories": _shown_categories(session, report["categories"]),
        "mcp_tools": [],
        "memory_files": report["memoryFiles"],
        "agents": [],
        "skills": skills,
    }
    return {"context_usage": usage}


def _shown_categories(
    session: SimulatedSession, reported: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    kinds = ("used", "deferred", "buffer", "free")
    listed = [{name: each[name] for name in ("name", "tokens", "kind")} for each in reported]
    talk = session.main
    if talk.messages and "Messages" not in {each["name"] for each in listed}:
        listed.append({"name": "Messages", "tokens": talk.tokens, "kind": "used"})
    return sorted(listed, key=lambda each: kinds.index(each["kind"]))


def _report_agents(session: SimulatedSession, args: str) -> str:
    running = [task.description for task in session.tasks.running() if "agent" in task.kind]
    return "\n".join(running) or "No subagents, teammates or other Claude sessions"


def _reload_plugins(session: SimulatedSession, args: str) -> str:
    own = len(session.state.catalog.agents)
    return f"Reloaded: 0 plugins · 0 skills · {own} agents · 0 hooks · 0 plugin LSP servers"


def _reload_skills(session: SimulatedSession, args: str) -> str:
    own = sum(1 for each in session.state.catalog.commands if not each.get("builtin"))
    # Three of the CLI's skills are there for users only; commands of users' own count as skills.
    known = len(facts.builtin_catalog(session.state.environment).skills) - 3 + own
    return f"Reloaded skills: {known} skills available (none added or removed)."


# The conversation


def rename(session: SimulatedSession, args: str) -> str:
    """Give the session a title."""
    if not args:
        return "Could not generate a name: no conversation context yet. Usage: /rename <name>"
    session.state.desk.title = args
    session.transcript.rename(args)
    session.state.outlet.system("session_title_changed", title=args)
    return f"Session renamed to: {args}"


async def _recap(session: SimulatedSession, args: str) -> str:
    if not session.main.messages:
        return "Nothing to recap yet — send a message first."
    body = session.requests.body(session.main)
    asked = {"role": "user", "content": "Say in one or two sentences where we are."}
    body["messages"] = [*body["messages"], asked]
    return await session.requests.ask_aside(body) or ""


def _always(words: str) -> Answer:
    return lambda session, args: words


def _at_once(answer: Answer) -> LocalCommand:
    async def say(session: SimulatedSession, args: str) -> str:
        return answer(session, args)

    return say


def _short(number: int) -> str:
    for unit, size in (("m", 1_000_000), ("k", 1000)):
        if number >= size:
            return f"{number / size:.1f}".removesuffix(".0") + unit
    return str(number)


def _dollars(cost: float) -> str:
    return f"${cost:.2f}" if cost > 0.5 else f"${cost:.4f}"


_AT_ONCE: Final[dict[str, Answer]] = {
    "__remote-workflow": _always(
        "remote-workflow: error[not-remote-session]: this command only runs inside a remote (CCR) "
        "session (CLAUDE_CODE_REMOTE is not set). Use the Workflow tool locally."
    ),
    "agents": _always("The /agents wizard has been removed."),
    "autocompact": _set_autocompact,
    "color": _set_color,
    "config": _set_option,
    "context": _report_context,
    "effort": _set_effort,
    "fast": _set_fast,
    "focus": _always("/focus isn't available here yet"),
    "heapdump": _always("There is no heap to dump in a simulated session."),
    "list-agents": _report_agents,
    "mcp": _steer_servers,
    "model": _set_model,
    "output-style": _set_style,
    "reload-plugins": _reload_plugins,
    "reload-skills": _reload_skills,
    "rename": rename,
    "usage": _report_usage,
    "workflow-launch-exec": _always(
        "workflow-launch-exec: no pending launch handoff for this invocation (expected when a "
        "restored session replays the dispatch turn); nothing executed."
    ),
}

EXTRA_FIELDS: Final = {"context": _context_fields}
"""What the line of an answer has besides."""

LOCAL_COMMANDS: Final[dict[str, LocalCommand]] = {
    **{name: _at_once(answer) for name, answer in _AT_ONCE.items()},
    "recap": _recap,
}
