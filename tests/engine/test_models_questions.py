"""What the model asks of a person: one choice, several, free text, notes, and no answer."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.answers import Allow, Choose, Deny, Skip
from pilothouse.errors import AnswerRefused
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine
from tests.support.model_questions import COLOUR, TOPPINGS


async def answered(house: OpenEngine, answer: Any, *questions: Any) -> EngineHarness:
    """One turn in which the model asks and this is the answer."""
    it = await house(reply(tool("AskUserQuestion", questions=list(questions))), "So be it.")
    session_id = await it.start("paint it")
    await it.answer(session_id, answer)
    assert (await it.until(session_id, "done")).result == "So be it."
    return it


async def test_the_model_reads_the_label_that_was_chosen(house: OpenEngine) -> None:
    it = await house(reply(tool("AskUserQuestion", questions=[COLOUR])), "So be it.")
    session_id = await it.start()
    question = await it.asked(session_id)
    assert (question.kind, question.title) == ("questions", "Which colour?")
    [posed] = question.posed
    assert [option.label for option in posed.options] == ["Red", "Blue"]
    assert [way.id for way in question.ways] == ["choose", "skip", "deny_and_stop"]
    await it.engine.answer(question.id, Choose(answers={"Which colour?": "Blue"}))
    await it.until(session_id, "done")
    assert '"Which colour?"="Blue"' in it.told()[0]


@pytest.mark.simulated
async def test_several_labels_and_several_questions_have_one_answer(house: OpenEngine) -> None:
    chosen = Choose(answers={"Which toppings?": ["Ham", "Olives"], "Which colour?": "Red"})
    it = await answered(house, chosen, COLOUR, TOPPINGS)
    assert '"Which toppings?"="Ham, Olives"' in it.told()[0]
    assert '"Which colour?"="Red"' in it.told()[0]


@pytest.mark.simulated
async def test_free_text_is_an_answer(house: OpenEngine) -> None:
    it = await answered(house, Choose(answers={"Which colour?": "the grey of fog"}), COLOUR)
    assert '"Which colour?"="the grey of fog"' in it.told()[0]


@pytest.mark.simulated
async def test_notes_reach_the_model(house: OpenEngine) -> None:
    chosen = Choose(answers={"Which colour?": "Red"}, notes={"Which colour?": "but not too bright"})
    it = await answered(house, chosen, COLOUR)
    assert '"Which colour?"="Red' in it.told()[0]
    assert "but not too bright" in it.told()[0]


@pytest.mark.simulated
async def test_skipped_questions_stay_unanswered_and_the_model_goes_on(house: OpenEngine) -> None:
    it = await answered(house, Skip(), COLOUR)
    assert "did not answer" in it.told()[0]


@pytest.mark.simulated
async def test_the_model_reads_why_its_questions_were_refused(house: OpenEngine) -> None:
    it = await answered(house, Deny(reason="Decide yourself."), COLOUR)
    assert "Decide yourself." in it.told()[0]


@pytest.mark.simulated
async def test_a_choice_that_does_not_fit_is_refused_and_the_question_stays(
    house: OpenEngine,
) -> None:
    it = await house(reply(tool("AskUserQuestion", questions=[COLOUR])), "So be it.")
    session_id = await it.start()
    question = await it.asked(session_id)
    wrong: list[Any] = [
        Choose(answers={}),
        Choose(answers={"Which hat?": "Red"}),
        Choose(answers={"Which colour?": ["Red", "Blue"]}),
        Allow(),
    ]
    for answer in wrong:
        with pytest.raises(AnswerRefused, match=r"choices: 'Which colour\?': 'Red' \| 'Blue'"):
            await it.engine.answer(question.id, answer)
    await it.answer(session_id, Choose(answers={"Which colour?": "Red"}))
    await it.until(session_id, "done")
