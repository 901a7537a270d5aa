"""Judges shell commands: rules, paths, harmless programs, and what is suggested for the rest.

The CLI parses commands with a shell grammar. Here lists, pipes, redirections, `if` and `for` are
read, and everything else is an obstacle; the reasons of rarer obstacles may differ in their words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from .draft import VerdictDraft, add_directories, add_rules, allow, ask_by_rule, requested, set_mode
from .findings import CommandFinding, find_command_rule
from .paths import expand
from .programs import judge_part, suggest_rule
from .rules import matches_command
from .shell import Part, ShellScript, read_script
from .tables import EVALUATORS, WRITERS
from .verdict import Json
from .writers import check_write

if TYPE_CHECKING:
    from .rules import CliRule
    from .state import PermissionState

__all__ = ["judge_command"]

_OPERATORS = "This command uses shell operators that require approval for safety"
_BACKGROUND = (
    "This command uses the `&` background operator, which defers execution past approval-time "
    "safety checks. Approve only if you trust it."
)
_CHANGES_REPOSITORY = (
    "This command changes directory before running a version-control command, which can pick up "
    "untrusted hooks or repository configuration from the target directory. "
    "Approve only if you trust it."
)
_CHANGES_AND_WRITES = (
    "Commands that change directories and {} require explicit approval to ensure paths are "
    "evaluated correctly. For security, Claude Code cannot automatically determine the final "
    "working directory when 'cd' is used in compound commands."
)
_BYPASS = (
    "Compound command contains cd with {} - manual approval required to prevent "
    "path resolution bypass"
)
_TO_NOWHERE = ("/dev/null", "/dev/stdout", "/dev/stderr")


def judge_command(text: str, state: PermissionState) -> VerdictDraft:
    """What the shell tool thinks of a command."""
    script = read_script(text)
    draft = _by_rules(script, state) or _by_shape(script, state)
    return draft or _by_parts(script, state)


def _by_rules(script: ShellScript, state: PermissionState) -> VerdictDraft | None:
    for behavior in ("deny", "ask", "allow"):
        rule = _exact_rule(script, behavior, state)
        if rule is not None:
            return _ruled(behavior, rule, script.text, exactly=True)
        if behavior == "allow":
            continue
        for part in script.parts:
            rule = find_command_rule(part, behavior, state)
            if rule is not None:
                return _ruled(behavior, rule, script.text, exactly=False)
    return None


def _exact_rule(script: ShellScript, behavior: str, state: PermissionState) -> CliRule | None:
    texts = [script.text.strip()]
    if script.obstacle is not None and behavior != "allow":
        texts += _guessed(script.text)
    elif len(script.parts) == 1 and not script.parts[0].redirections:
        texts.append(script.parts[0].text)
        texts.append(" ".join(script.parts[0].raw[2:]) if script.parts[0].name == "timeout" else "")
    texts = [text for text in texts if text]
    exactly = script.obstacle is None or behavior == "allow"
    for rule in state.rules[behavior]:
        pattern = rule.content if rule.tool == "Bash" else None
        if pattern and any(matches_command(pattern, text, exactly=exactly) for text in texts):
            return rule
    return None


def _guessed(text: str) -> list[str]:
    """Commands that may hide in a text that cannot be read."""
    for sign in ("$(", "`", ")", "&&", "||", ";", "|", "{", "}", "\n"):
        text = text.replace(sign, "\0")
    return [piece.strip() for piece in text.split("\0") if piece.strip()]


def _ruled(behavior: str, rule: CliRule, text: str, *, exactly: bool) -> VerdictDraft:
    if behavior == "allow":
        return allow("rule", rule)
    if behavior == "ask":
        return ask_by_rule(rule, requested("use Bash"))
    return _denied(text, rule if exactly else None)


def _denied(text: str, rule: CliRule | None) -> VerdictDraft:
    return VerdictDraft(
        behavior="deny",
        message=f"Permission to use Bash with command {text} has been denied.",
        reason_type="subcommandResults" if rule is None else "rule",
        rule=rule,
    )


def _by_shape(script: ShellScript, state: PermissionState) -> VerdictDraft | None:
    """What is asked about for the looks of the whole command."""
    if script.obstacle is not None:
        return _odd(script.obstacle, suggestions=[])
    if script.grouped:
        return _odd(_OPERATORS)
    evaluator = next((part.name for part in script.parts if part.name in EVALUATORS), None)
    if evaluator is not None:
        return _odd(f"'{evaluator}' evaluates arguments as shell code", suggestions=[])
    bare = next((part for part in script.parts if not part.words), None)
    if bare is not None and len(bare.environment) > 1:
        reason = "Variable assignments in this command can't be checked before it runs"
        return _odd(reason, suggestions=[])
    return _changing_directory(script, state)


def _odd(reason: str, message: str = "", suggestions: list[Json] | None = None) -> VerdictDraft:
    return VerdictDraft(
        behavior="ask",
        message=message or reason,
        reason=reason,
        reason_type="other",
        suggestions=suggestions,
    )


def _changing_directory(script: ShellScript, state: PermissionState) -> VerdictDraft | None:
    names = [part.name for part in script.parts]
    if "cd" not in names or len(names) < 2 or script.piped:
        return None
    if "git" in names[names.index("cd") :]:
        return _odd(_CHANGES_REPOSITORY)
    if any(_targets(part) for part in script.parts):
        message = _CHANGES_AND_WRITES.format("write via output redirection")
        return _odd(_BYPASS.format("output redirection"), message)
    if WRITERS.isdisjoint(names):
        return None
    moved = judge_part(script.parts[names.index("cd")], state)
    if moved.behavior != "allow":
        return _several(
            [moved, CommandFinding(behavior="ask", text="")], script, state, suggest=False
        )
    mode = set_mode(state)
    suggestions = [add_rules([("Bash", suggest_rule(script.text))]), *mode] if mode else []
    message = _CHANGES_AND_WRITES.format("perform write operations")
    return _odd(_BYPASS.format("write operation"), message, suggestions)


def _targets(part: Part) -> list[str]:
    return [
        target
        for operator, target in part.redirections
        if ">" in operator and target not in _TO_NOWHERE
    ]


def _by_parts(script: ShellScript, state: PermissionState) -> VerdictDraft:
    redirected = _check_redirections(script, state)
    if redirected is not None:
        return _single(redirected, script, state)
    findings = [judge_part(part, state) for part in script.parts]
    if any(finding.behavior == "deny" for finding in findings):
        return _denied(script.text, None)
    asked = [finding for finding in findings if finding.behavior == "ask"]
    cautious = next((finding for finding in asked if finding.cautious), None)
    if cautious is not None:
        return _cautious(cautious)
    background = any(part.end == "&" for part in script.parts)
    if not asked:
        return _backgrounded() if background else allow("subcommandResults")
    if script.piped:
        return _pipeline(asked, script, state)
    if len(asked) == 1 and (asked[0].blocked_path is not None or len(script.parts) == 1):
        return _single(asked[0], script, state)
    return _several(asked, script, state, suggest=not background)


def _check_redirections(script: ShellScript, state: PermissionState) -> CommandFinding | None:
    for part in script.parts:
        for target in _targets(part):
            found = check_write(expand(target, state), "Output redirection to", part.text, state)
            if found is not None:
                return replace(found, redirects=True)
    return None


def _cautious(finding: CommandFinding) -> VerdictDraft:
    safety = finding.reason_type == "safetyCheck"
    suggestions: list[Json] | None = None if finding.writes else []
    return VerdictDraft(
        behavior="ask",
        message=finding.message,
        reason=finding.reason,
        reason_type=finding.reason_type,
        suggestions=suggestions,
        classifier_approvable=False if safety else None,
        suppress_always_allow_rule=True if safety else None,
    )


def _backgrounded() -> VerdictDraft:
    return VerdictDraft(
        behavior="ask",
        message=_BACKGROUND,
        reason=_BACKGROUND,
        reason_type="safetyCheck",
        classifier_approvable=False,
        suppress_always_allow_rule=True,
    )


def _single(finding: CommandFinding, script: ShellScript, state: PermissionState) -> VerdictDraft:
    if finding.behavior == "deny":
        return _denied(script.text, None)
    blocked = finding.blocked_path is not None or finding.writes
    return VerdictDraft(
        behavior="ask" if blocked else "pass",
        message=finding.message,
        reason=finding.reason,
        reason_type=finding.reason_type,
        suggestions=_suggest(finding, script, state),
        blocked_path=finding.blocked_path,
        classifier_approvable=True if finding.reason_type == "safetyCheck" else None,
    )


def _suggest(
    finding: CommandFinding, script: ShellScript, state: PermissionState
) -> list[Json] | None:
    if finding.blocked_path is None:
        if finding.writes:
            mode = set_mode(state)
            return [add_rules([("Bash", suggest_rule(script.text))]), *mode] if mode else []
        return [add_rules([("Bash", suggest_rule(finding.text))])]
    if finding.folder is None:
        return None
    whole = [add_rules([("Bash", suggest_rule(script.text))])]
    if finding.reason_type == "safetyCheck":
        whole = []
    if finding.writes:
        mode = [] if finding.redirects else set_mode(state)
        return [*whole, add_directories(finding.folder), *mode]
    if finding.folder == "/":
        return []
    return [*whole, add_rules([("Read", f"/{finding.folder}/**")], "session")]


def _pipeline(
    asked: list[CommandFinding], script: ShellScript, state: PermissionState
) -> VerdictDraft:
    suggestions: list[Json] = []
    for finding in asked:
        for update in _suggest(finding, script, state) or []:
            if update["type"] != "addRules" or update not in suggestions:
                suggestions.append(update)
    return VerdictDraft(
        behavior="ask",
        message=_needed(asked),
        reason_type="subcommandResults",
        suggestions=suggestions,
    )


def _several(
    asked: list[CommandFinding], script: ShellScript, state: PermissionState, *, suggest: bool
) -> VerdictDraft:
    rules: list[tuple[str, str | None]] = []
    for finding in asked:
        read = finding.blocked_path is not None and not finding.writes
        rule = ("Read", f"/{finding.folder}/**") if read else ("Bash", suggest_rule(finding.text))
        if rule not in rules:
            rules.append(rule)
    blocked = any(finding.blocked_path is not None for finding in asked)
    return VerdictDraft(
        behavior="ask" if blocked else "pass",
        message=_needed(asked),
        reason_type="subcommandResults",
        suggestions=[add_rules(rules)] if suggest else None,
    )


def _needed(asked: list[CommandFinding]) -> str:
    texts = list(dict.fromkeys(finding.text for finding in asked))
    parts = "part requires" if len(texts) == 1 else "parts require"
    return (
        f"This Bash command contains multiple operations. The following {parts} approval: "
        f"{', '.join(texts)}"
    )
