"""A link that is cut at random moments in every way loses nothing and doubles nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.relay.bad_link import Proxy
from tests.support.relay.door import Door
from tests.support.relay.running import python, relay

# Talks all the time, and answers each line, until it is told to stop.
TALKS = """
import os, sys, threading, time
lock, over = threading.Lock(), threading.Event()

def say(text):
    with lock:
        os.write(1, text.encode() + b"\\n")

def listen():
    for line in sys.stdin:
        if line == "stop\\n":
            break
        say("heard " + line.rstrip())
    over.set()

threading.Thread(target=listen).start()
number = 0
while not over.is_set():
    for _ in range(20):
        say(f"said {number} " + "z" * (number % 700))
        number += 1
    time.sleep(0.005)
say(f"total {number}")
"""
PACE = {"ping": 0.2, "silence": 0.5, "handshake": 0.5, "replaced_delay": 0.02, "local_delay": 0.1}


async def cut_at_random(folder: Path, cuts: int, seed: int) -> None:
    heard = 0
    async with (
        Door().opened() as door,
        Proxy(door.port, cuts, seed).opened() as proxy,
        relay(proxy.url, folder, python(TALKS), pace=PACE) as running,
    ):
        await door.greeted()
        while len(proxy.fates) < cuts:
            await door.say(f"line {heard}".encode())
            heard += 1
            await asyncio.sleep(0.01)
        await door.say(b"stop")
        assert (await door.ended()).code == 0
        assert await running.result() == 0
    check(door, heard)


def check(door: Door, heard: int) -> None:
    *lines, total = [line.decode() for line in door.lines]
    said = [line for line in lines if line.startswith("said ")]
    assert total == f"total {len(said)}"
    assert said == [f"said {number} " + "z" * (number % 700) for number in range(len(said))]
    answers = [line for line in lines if line.startswith("heard ")]
    assert answers == [f"heard line {number}" for number in range(heard)]
    assert len(lines) == len(said) + len(answers)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_a_link_cut_at_random_loses_nothing_and_doubles_nothing(
    tmp_path: Path, seed: int
) -> None:
    await cut_at_random(tmp_path, 25, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 6))
async def test_a_link_cut_two_hundred_times_loses_nothing(tmp_path: Path, seed: int) -> None:
    await cut_at_random(tmp_path, 200, seed)
