"""AskUserQuestion: one choice, several, free text, notes, no answer, and no."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pilothouse import Allow, Choose, Deny, QuestionRequest, Skip
from pilothouse_sim.scenario import reply, tool
from tests.support.model_questions import COLOUR, TOPPINGS
from tests.support.real.desk import Desk, OpenDesk
from tests.support.real.handlers import Handler, results
from tests.support.versions import NEWEST, Since, can
from tests.support.waiting import DEADLINE


async def asked(
    desk: OpenDesk, answer: Any, *questions: Any, **options: Any
) -> tuple[Desk, Handler]:
    """One turn in which the model asks and this is the answer."""
    it = await desk(reply(tool("AskUserQuestion", questions=list(questions))), reply("So be it."))
    handler = Handler(answer)
    client = await it.client(**({"on_question": handler} | options))
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("paint it")
    assert (turn.outcome, turn.text) == ("finished", "So be it.")
    return it, handler


@pytest.mark.versions(NEWEST, "2.1.119")
async def test_the_model_reads_the_label_that_was_chosen(desk: OpenDesk) -> None:
    # B21, B22
    it, handler = await asked(desk, Choose({"Which colour?": "Blue"}), COLOUR)
    [request] = handler.requests
    assert isinstance(request, QuestionRequest)
    [question] = request.questions
    assert (question.question, question.header) == ("Which colour?", "Colour")
    assert [choice.label for choice in question.options] == ["Red", "Blue"]
    assert question.options[1].description == "like the sea"
    assert not question.multi_select
    # Only newer CLIs say so themselves.
    is_told = can(it.version, Since.TELLS_WHAT_NEEDS_A_PERSON)
    assert request.request.requires_user_interaction is (True if is_told else None)
    assert '"Which colour?"="Blue"' in results(it)[0]


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_several_labels_and_several_questions_have_one_answer(desk: OpenDesk) -> None:
    # B22, B23
    answer = Choose({"Which toppings?": ["Ham", "Olives"], "Which colour?": "Red"})
    it, handler = await asked(desk, answer, COLOUR, TOPPINGS)
    assert [question.multi_select for question in handler.requests[0].questions] == [False, True]
    told = results(it)[0]
    assert '"Which toppings?"="Ham, Olives"' in told
    assert '"Which colour?"="Red"' in told


async def test_free_text_is_an_answer(desk: OpenDesk) -> None:
    # B23
    it, _ = await asked(desk, Choose({"Which colour?": "the grey of fog"}), COLOUR)
    assert '"Which colour?"="the grey of fog"' in results(it)[0]


async def test_notes_reach_the_model(desk: OpenDesk) -> None:
    # B23, B36: the oldest drop `annotations`, so there they are part of the answer.
    answer = Choose({"Which colour?": "Red"}, notes={"Which colour?": "but not too bright"})
    it, _ = await asked(desk, answer, COLOUR)
    told = results(it)[0]
    assert '"Which colour?"="Red' in told
    assert "notes: but not too bright" in told


async def test_the_oldest_cli_drops_notes_that_stand_beside_the_answers(desk: OpenDesk) -> None:
    # B36
    question = "Which colour?"
    beside = {"answers": {question: "Red"}, "annotations": {question: {"notes": "but dark"}}}
    edit = Handler(lambda request: Allow(input={**request.input, **beside}))
    it, _ = await asked(desk, None, COLOUR, on_question=edit)
    assert '"Which colour?"="Red"' in results(it)[0]
    assert ("but dark" in results(it)[0]) == can(it.version, Since.PASSES_NOTES)


async def test_skipped_questions_stay_unanswered_and_the_model_goes_on(desk: OpenDesk) -> None:
    # B23
    it, _ = await asked(desk, Skip(), COLOUR)
    assert "The user did not answer the questions." in results(it)[0]


async def test_the_model_reads_why_its_question_was_refused(desk: OpenDesk) -> None:
    # B23
    it, _ = await asked(desk, Deny("Decide yourself."), COLOUR)
    assert "Decide yourself." in results(it)[0]


async def test_without_a_handler_of_their_own_questions_go_to_on_permission(desk: OpenDesk) -> None:
    # B21
    handler = Handler(Choose({"Which colour?": "Blue"}))
    it, unused = await asked(desk, None, COLOUR, on_question=None, on_permission=handler)
    assert unused.requests == []
    assert isinstance(handler.requests[0], QuestionRequest)
    assert '"Which colour?"="Blue"' in results(it)[0]


async def test_questions_are_asked_even_where_the_tool_is_allowed(desk: OpenDesk) -> None:
    # B24
    answer = Choose({"Which colour?": "Blue"})
    it, handler = await asked(desk, answer, COLOUR, allowed_tools=["AskUserQuestion"])
    assert len(handler.requests) == 1
    assert '"Which colour?"="Blue"' in results(it)[0]


async def test_what_is_no_answer_to_a_question_refuses_it(desk: OpenDesk) -> None:
    it, _ = await asked(desk, {"Which colour?": "Blue"}, COLOUR)
    assert "dict is no answer to AskUserQuestion" in results(it)[0]


async def test_a_yes_without_answers_is_no_answer_to_the_model(desk: OpenDesk) -> None:
    # B23, B35: the older CLIs tell it that there are answers, and give none.
    it, _ = await asked(desk, Allow(), COLOUR)
    is_told = can(it.version, Since.TELLS_OF_NO_ANSWER)
    told = "The user did not answer" if is_told else "User has answered"
    assert results(it)[0].startswith(told)
    assert "Blue" not in results(it)[0]
