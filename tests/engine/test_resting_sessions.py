"""Sessions at rest stay in the journal until somebody touches them, and nobody can tell."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.questions import QuestionFilter
from pilothouse.api.records import OptionsChanged
from pilothouse.api.requests import Say, SessionOptions
from pilothouse.engine.engine import SessionEngine
from pilothouse.engine.session import Session
from pilothouse.errors import UnknownSession
from tests.support.engine.played import EngineStage, quick_folder, staged
from tests.support.engine.steps import PLAYS, Play
from tests.support.parts import in_parts

# What holds of any history


async def everything_told(engine: SessionEngine) -> dict[str, Any]:
    """Every answer of a verb that tells of more than one session."""
    told: dict[str, Any] = {"health": await engine.health()}
    for offset in (0, 1, 2, 4):
        told[f"list {offset}"] = await engine.list(limit=2, offset=offset)
    told["all"] = await engine.list(limit=100)
    told["live"] = await engine.list(live=True)
    for each in told["all"].sessions[:1]:
        told["of a directory"] = await engine.list(cwd=each.cwd)
        told["of another"] = await engine.list(cwd=f"{each.cwd}/elsewhere")
    for state in get_args(QuestionFilter):
        told[f"questions {state}"] = found = await engine.questions(state=state)
        told[f"each {state}"] = [await engine.question(question.id) for question in found]
    for by in ("turn", "session", "project", "day"):
        told[f"cost {by}"] = await engine.cost(by)
    told["events"] = await engine.read(0)
    return told


async def each_told(engine: SessionEngine) -> dict[str, Any]:
    """What is told of each session, by its own id and by that of its conversation."""
    statuses = [
        await engine.status(each, output_lines=5) for each in await engine.journal.sessions()
    ]
    told: dict[str, Any] = {each.session_id: each for each in statuses}
    for each in statuses:
        if each.claude_session_id is not None:
            told[f"as {each.claude_session_id}"] = await engine.status(each.claude_session_id)
    return told


async def play_and_read(steps: list[tuple[str, int, int]], folder: Path, *, orderly: bool) -> None:
    async with staged(folder, max_sessions=2) as stage:
        happens = Play(stage)
        await stage.start()
        for name, pick, pause in steps:
            done = getattr(happens, name)(pick)
            if done is not None:
                await done
            await happens.pause(pause)
        await (happens.close(0) if orderly else happens.crash(0))
        await stage.settle()
        lazily = await everything_told(stage.engine)
        in_memory = set(stage.engine.sessions)
        each = await each_told(stage.engine)
        assert set(stage.engine.sessions) == set(await stage.engine.journal.sessions())
        assert await everything_told(stage.engine) == lazily
        assert await each_told(stage.engine) == each
        stage.let_rest()
        at_work = {name for name, it in stage.engine.sessions.items() if it.is_at_work}
        assert set(stage.engine.sessions) == at_work <= in_memory
        assert await everything_told(stage.engine) == lazily
        assert await each_told(stage.engine) == each


@in_parts
@given(steps=PLAYS, orderly=st.booleans())
def test_an_engine_that_restores_on_touch_tells_what_one_tells_that_restored_everything(
    part: int, steps: list[tuple[str, int, int]], orderly: bool
) -> None:
    with quick_folder() as folder:
        asyncio.run(play_and_read(steps, folder, orderly=orderly))


# One by one


async def run_to_rest(stage: EngineStage, session_id: str) -> None:
    cli = stage.cli(session_id)
    assert cli is not None
    cli.begin()
    cli.end_turn()
    await stage.settle()
    await stage.engine.stop(session_id)


@asynccontextmanager
async def rested(folder: Path, count: int = 1) -> AsyncIterator[tuple[EngineStage, list[str]]]:
    """An engine that was opened on sessions at rest, and their ids."""
    async with staged(folder) as stage:
        ids: list[str] = []
        for _ in range(count):
            ids.append(await stage.start())
            await stage.settle()
            await run_to_rest(stage, ids[-1])
        await stage.close()
        await stage.open()
        yield stage, ids


async def test_only_what_is_at_work_is_restored_at_the_start(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        resting, asking = await stage.start(), await stage.start()
        await stage.settle()
        await run_to_rest(stage, resting)
        cli = stage.cli(asking)
        assert cli is not None
        cli.begin()
        cli.want("tool")
        await stage.settle()
        await stage.close()
        await stage.open()
        assert list(stage.engine.sessions) == [asking]
        assert (await stage.engine.status(resting)).session_id == resting
        assert set(stage.engine.sessions) == {asking, resting}


async def test_two_that_touch_a_resting_session_at_once_have_one_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Session] = []
    first = Session.__init__

    def count(self: Session, *args: Any) -> None:
        made.append(self)
        first(self, *args)

    async with rested(tmp_path) as (stage, [session_id]):
        monkeypatch.setattr(Session, "__init__", count)
        await asyncio.gather(
            *(stage.engine.say(session_id, Say(content=f"{n}")) for n in range(3)),
            stage.engine.status(session_id),
        )
        await stage.settle()
        assert len(made) == 1
        cli = stage.cli(session_id)
        assert cli is not None
        assert len(cli.heard) == 3


async def test_one_that_gives_up_its_touch_leaves_the_session_to_the_others(
    tmp_path: Path,
) -> None:
    async with rested(tmp_path) as (stage, [session_id]):
        touching = [asyncio.create_task(stage.engine.status(session_id)) for _ in range(3)]
        await asyncio.sleep(0)
        touching[0].cancel()
        told = await asyncio.gather(*touching[1:])
        assert [each.session_id for each in told] == [session_id] * 2


async def test_a_session_that_was_let_go_of_has_all_that_was_written_to_it_before(
    tmp_path: Path,
) -> None:
    async with rested(tmp_path) as (stage, [session_id]):
        await stage.engine.status(session_id)
        held = stage.engine.sessions[session_id]
        stage.let_rest()
        assert session_id not in stage.engine.sessions
        posted = held.write(OptionsChanged(options=SessionOptions(model="small")))
        del held
        gc.collect()
        assert not posted.committed.done()
        assert (await stage.engine.status(session_id)).model == "small"


async def test_a_session_is_not_let_go_of_before_all_of_it_is_in_the_journal(
    tmp_path: Path,
) -> None:
    async with rested(tmp_path) as (stage, [session_id]):
        await stage.engine.status(session_id)
        changed = OptionsChanged(options=SessionOptions(model="small"))
        posted = stage.engine.sessions[session_id].write(changed)
        stage.let_rest()
        assert session_id in stage.engine.sessions
        await posted.committed
        stage.let_rest()
        assert session_id not in stage.engine.sessions


async def test_a_session_that_somebody_is_busy_with_stays_the_same_one(tmp_path: Path) -> None:
    async with rested(tmp_path) as (stage, [session_id]):
        await stage.engine.status(session_id)
        held = stage.engine.sessions[session_id]
        stage.let_rest()
        assert session_id not in stage.engine.sessions
        await stage.engine.status(session_id)
        assert stage.engine.sessions[session_id] is held


async def test_a_session_that_was_let_go_of_is_among_the_others_once_a_cli_may_run(
    tmp_path: Path,
) -> None:
    async with rested(tmp_path) as (stage, [session_id]):
        await stage.engine.status(session_id)
        held = stage.engine.sessions[session_id]
        stage.let_rest()
        assert session_id not in stage.engine.sessions
        await held.cli.reserve()
        assert stage.engine.sessions[session_id] is held
        held.cli.release()


async def test_a_session_at_rest_leaves_the_memory(tmp_path: Path) -> None:
    async with rested(tmp_path, 3) as (stage, ids):
        await stage.touch_all()
        stage.let_rest()
        gc.collect()
        sessions = stage.engine._recovery._sessions
        assert (list(sessions.all), list(sessions._objects)) == ([], [])
        assert (await stage.engine.health()).sessions == len(ids)


async def test_a_journal_whose_sessions_are_not_marked_is_restored_and_marked(
    tmp_path: Path,
) -> None:
    async with rested(tmp_path, 2) as (stage, ids):
        told = await everything_told(stage.engine)
        await stage.close()
        with closing(sqlite3.connect(stage._journal(0))) as db, db:
            db.execute(
                "UPDATE sessions SET at_work = 1, conversation = NULL, updated_at = 0,"
                " cwd = NULL, state = NULL, summary = NULL"
            )
        await stage.open()
        await stage.settle()
        assert await stage.engine.journal.sessions(at_work=True) == []
        again = await everything_told(stage.engine)
        assert [again[each] for each in told if each != "health"] == [
            told[each] for each in told if each != "health"
        ]
        assert (again["health"].sessions, list(stage.engine.sessions)) == (len(ids), [])


async def test_an_unknown_session_is_told_with_those_whose_ids_begin_alike(
    tmp_path: Path,
) -> None:
    async with rested(tmp_path) as (stage, [session_id]):
        with pytest.raises(UnknownSession) as refused:
            await stage.engine.status(session_id[:-2] + "00")
        assert refused.value.advice == f"did you mean {session_id}?"
