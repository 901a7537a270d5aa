"""A door in a folder whose path is too long for a socket's address."""

from __future__ import annotations

from pathlib import Path

from tests.support.relay.door import RelayDoor
from tests.support.relay.relays import ECHO, python, relay


async def test_a_relay_reaches_it_again_and_again(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    folder.mkdir(parents=True)
    # The door itself has a short path, since only relays are the subject.
    (folder / "door").symlink_to(tmp_path / "door")
    door = RelayDoor(tmp_path / "door")
    async with door.opened(), relay(f"unix:{folder / 'door'}", tmp_path, python(ECHO)):
        first = await door.greeted()
        await door.restart()
        second = await door.greeted(2)
        await door.say(b"hello")
        await door.has(1)
    assert first.pid == second.pid
    assert door.lines == [b"heard hello"]
