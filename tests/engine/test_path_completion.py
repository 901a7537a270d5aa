"""Paths that fit what somebody has typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.errors import UnknownSession
from tests.support.engine.harness import OpenEngine

pytestmark = pytest.mark.simulated


def make(folder: Path, *paths: str) -> None:
    for each in paths:
        path = folder / each
        path.parent.mkdir(parents=True, exist_ok=True)
        if each.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_text("x")


async def test_directories_are_completed_in_any_case_and_files_are_not(
    house: OpenEngine, tmp_path: Path
) -> None:
    it = await house()
    make(tmp_path, "Harbour/", "harvest/", "hull.txt", ".hidden/", "other/")
    (tmp_path / "half").symlink_to(tmp_path / "other")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    top = str(tmp_path)
    named = [f"{top}/{name}" for name in ("half", "Harbour", "harvest")]
    assert (await it.engine.directories(f"{top}/ha")).paths == named
    assert (await it.engine.directories(f"{top}/.h")).paths == [f"{top}/.hidden"]
    assert f"{top}/.hidden" not in (await it.engine.directories(f"{top}/")).paths
    assert (await it.engine.directories("harb")).paths == []
    assert (await it.engine.directories(f"{top}/nowhere/x")).paths == []


async def test_only_what_leads_to_where_sessions_may_work_is_shown(
    house: OpenEngine, tmp_path: Path
) -> None:
    it = await house()
    make(tmp_path, "open/project/deep/", "open/other/", "closed/")
    engine = await it.another(
        state_dir=str(tmp_path / "state"), allowed_roots=str(tmp_path / "open/project")
    )
    for typed, names in {
        "": ["open"],
        "open/": ["open/project"],
        "open/project/": ["open/project/deep"],
        "closed/": [],
    }.items():
        found = (await engine.directories(f"{tmp_path}/{typed}")).paths
        assert found == [f"{tmp_path}/{name}" for name in names], typed


async def test_files_fit_by_their_beginning_then_their_middle_then_their_letters(
    house: OpenEngine,
) -> None:
    it = await house("One.")
    session_id = await it.done()
    make(it.cwd, "boat.py", "src/lifeboat.py", "boats/mast.py", "b/o/a-t.md")
    make(it.cwd, "node_modules/boat.js", ".git/boat")
    found = (await it.engine.files(session_id, query="BOAT")).paths
    assert found == ["boat.py", "boats/", "boats/mast.py", "src/lifeboat.py", "b/o/a-t.md"]
    assert (await it.engine.files(session_id, query="mast")).paths == ["boats/mast.py"]
    assert (await it.engine.files(session_id, query="zzz")).paths == []


async def test_names_that_are_no_text_are_left_out(house: OpenEngine, tmp_path: Path) -> None:
    it = await house("One.")
    session_id = await it.done()
    make(tmp_path, "odd\udcff/")
    make(it.cwd, "odd\udcff.txt")
    assert (await it.engine.directories(f"{tmp_path}/odd")).paths == []
    assert (await it.engine.files(session_id, query="odd")).paths == []


async def test_nobody_has_files(house: OpenEngine) -> None:
    it = await house()
    with pytest.raises(UnknownSession):
        await it.engine.files("nobody")


async def test_files_of_a_place_that_is_out_of_bounds_are_not_told(
    house: OpenEngine, tmp_path: Path
) -> None:
    it = await house("One.")
    session_id = await it.done()
    make(it.cwd, "boat.py")
    assert (await it.engine.files(session_id, query="boat")).paths == ["boat.py"]
    await it.close()
    make(tmp_path, "elsewhere/")
    await it.open(allowed_roots=str(tmp_path / "elsewhere"))
    assert (await it.engine.files(session_id, query="boat")).paths == []


async def test_a_link_in_the_place_of_a_directory_leads_nowhere_else(
    house: OpenEngine, tmp_path: Path
) -> None:
    it = await house("One.")
    session_id = await it.done()
    await it.close()
    await it.open(allowed_roots=str(it.cwd.parent))
    make(it.cwd, "boat.py")
    assert (await it.engine.files(session_id)).paths == ["boat.py"]
    make(tmp_path, "closed/secret.txt")
    replace_with_link(it.cwd, tmp_path / "closed")
    assert (await it.engine.files(session_id)).paths == []


def replace_with_link(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)
