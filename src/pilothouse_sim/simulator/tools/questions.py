"""AskUserQuestion: the answers come with the permission."""

from __future__ import annotations

from typing import Any, cast

from pilothouse_sim.simulator.tools.base import ToolOutcome, ToolSurroundings
from pilothouse_sim.simulator.tools.schemas import Issue, invalid, parameter

__all__ = ["PARAMETERS", "check_questions", "run"]

_OPTION = {
    "label": parameter("string", required=True),
    "description": parameter("string", required=True),
    "preview": parameter("string"),
}
_QUESTION = {
    "question": parameter("string", required=True),
    "header": parameter("string", required=True),
    "options": parameter("array", required=True, fields=_OPTION, least=2, most=4),
    "multiSelect": parameter("boolean"),
}
PARAMETERS = {
    "questions": parameter("array", required=True, fields=_QUESTION, least=1, most=4),
    "answers": parameter("record", values=("string", "array")),
    "annotations": parameter("record"),
    "metadata": parameter("object"),
    "response": parameter("string"),
}
_UNIQUE = "Question texts must be unique, option labels must be unique within each question"


def check_questions(arguments: dict[str, Any], _: ToolSurroundings) -> None:
    """Refuse questions that nobody could tell apart."""
    questions = cast("list[dict[str, Any]]", arguments["questions"])
    texts = [question["question"] for question in questions]
    labels = [[option["label"] for option in question["options"]] for question in questions]
    if any(len(set(names)) < len(names) for names in (texts, *labels)):
        issue: Issue = {"code": "custom", "path": [], "message": _UNIQUE}
        raise invalid("AskUserQuestion", [issue])


async def run(arguments: dict[str, Any], _: ToolSurroundings) -> ToolOutcome:
    """Tell the model what the person answered."""
    questions = cast("list[dict[str, Any]]", arguments["questions"])
    result: dict[str, Any] = {"questions": questions, "answers": arguments.get("answers") or {}}
    for name in ("annotations", "response"):
        if name in arguments:
            result[name] = arguments[name]
    return ToolOutcome(content=_words(questions, result), result=result)


def _words(questions: list[dict[str, Any]], result: dict[str, Any]) -> str:
    if result.get("response"):
        return f"The user responded: {result['response']}"
    answers: dict[str, Any] = result["answers"]
    notes: dict[str, Any] = result.get("annotations") or {}
    answered = [
        question
        for question in questions
        if (answer := answers.get(question["question"])) is not None and answer != ""
    ]
    if not answered:
        return "The user did not answer the questions."
    pairs = ", ".join(_pair(question["question"], answers, notes) for question in answered)
    if not notes and all(_is_choice(question, answers) for question in answered):
        return (
            f"Your questions have been answered: {pairs}. "
            "You can now continue with these answers in mind."
        )
    return (
        f"The user answered: {pairs}. Read the answers carefully — they may request "
        "clarification, changes, or that you not proceed — and follow what they actually say."
    )


def _pair(asked: str, answers: dict[str, Any], notes: dict[str, Any]) -> str:
    pair = f'"{asked}"="{_joined(answers[asked])}"'
    note: dict[str, Any] = notes.get(asked) or {}
    if note.get("preview"):
        pair += f" selected preview:\n{note['preview']}"
    if note.get("notes"):
        pair += f" notes: {note['notes']}"
    return pair


def _joined(answer: Any) -> str:
    return ",".join(cast("list[str]", answer)) if isinstance(answer, list) else str(answer)


def _is_choice(question: dict[str, Any], answers: dict[str, Any]) -> bool:
    """Whether the answer names only options that were offered."""
    answer = answers[question["question"]]
    labels = {option["label"] for option in question["options"]}
    if isinstance(answer, list):
        chosen = cast("list[str]", answer)
    else:
        chosen = str(answer).split(", ") if question.get("multiSelect") else [str(answer)]
    return bool(chosen) and all(choice in labels for choice in chosen)
