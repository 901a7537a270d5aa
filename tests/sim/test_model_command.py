"""The scripted model as a command."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import httpx

from pilothouse_sim.scenario import Scenario, gate, reply, save
from tests.support.waiting import DEADLINE

SIMULATOR = "from pilothouse_sim.simulator.main import main; raise SystemExit(main())"
COMMAND = (sys.executable, "-P", "-c", SIMULATOR, "model", "--scenario")


async def test_it_prints_what_points_a_cli_at_it_and_plays_the_scenario(tmp_path: Path) -> None:
    file = tmp_path / "scenario.json"
    save(Scenario(replies=[reply(gate("almost"), "Ahoy.")]), file)
    process = await asyncio.create_subprocess_exec(
        *COMMAND, file, stdout=asyncio.subprocess.PIPE, env={"HOME": str(tmp_path)}
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE):
            lines = [(await process.stdout.readline()).decode().strip() for _ in range(3)]
            given = dict(line.removeprefix("export ").split("=", 1) for line in lines)
            messages = [{"role": "user", "content": "hi"}]
            body = {"model": "big", "max_tokens": 9, "messages": messages}
            async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE) as http:
                url = f"{given['ANTHROPIC_BASE_URL']}/v1/messages"
                told = (await http.post(url, json=body)).raise_for_status().json()
            assert [block["text"] for block in told["content"]] == ["Ahoy."]
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_scenario_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, tmp_path / "none", stderr=asyncio.subprocess.PIPE, env={"HOME": str(tmp_path)}
    )
    async with asyncio.timeout(DEADLINE):
        _, told = await process.communicate()
    assert process.returncode == 1
    assert told.decode() == f"pilothouse-sim model: {tmp_path}/none: No such file or directory\n"
