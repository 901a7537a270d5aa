"""Shows where the simulator differs from the real CLI.

    python -m tests.differential.run [SCENE ...] [--show] [--real-only] [--fresh] [--stable N]

What the real CLI wrote is kept in `.cache/differential/` until the scene changes, so that only the
simulator runs again. A `*` in a name stands for anything.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import msgspec

from pilothouse_sim.isolation import enter_network_namespace
from pilothouse_sim.real_cli import fetch
from tests.differential import catalogue
from tests.differential.compare import (
    Difference,
    Intended,
    Line,
    align,
    compare,
    explain,
    load_intended,
    load_unsteady,
    normalise,
    plain,
)
from tests.differential.driver import RealPlayer, Scene, SimulatedPlayer, Transcript, perform

ROOT = Path(__file__).parents[2]
VERSION = "2.1.325"
CLIS = Path(os.environ.get("PILOTHOUSE_CACHE") or ROOT / ".cache/clis")
CACHE = ROOT / ".cache/differential"
SHOWN = 40
"""Differences of one scene that are printed without --all."""


def main() -> int:
    """Plays the scenes and prints what differs; the exit code is 1 when something does."""
    options = _options()
    player = RealPlayer(fetch(VERSION, CLIS).resolve())
    if not enter_network_namespace():
        sys.exit("run: this system gives no network namespace; run it as root on Linux")
    if options.stable:
        return asyncio.run(_stability(options, player))
    return asyncio.run(_differences(options, player))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.differential.run")
    parser.add_argument("scenes", nargs="*", metavar="SCENE")
    add = parser.add_argument
    add("--show", action="store_true", help="print both transcripts, line beside line")
    add("--real-only", action="store_true", help="print what the real CLI writes")
    add("--fresh", action="store_true", help="run the real CLI again")
    add("--all", action="store_true", help="print every difference, intended ones included")
    add("--list", action="store_true", help="print the names of the scenes")
    add("--summary", action="store_true", help="count differences over all scenes, by field")
    add("--width", type=int, default=220, help="cut printed lines here")
    add("--stable", type=int, metavar="N", default=0, help="compare N real runs with another")
    add("--jobs", type=int, default=2, help="scenes at once")
    add("--patience", type=float, default=10.0, help="seconds to wait for the simulator")
    options = parser.parse_args()
    patterns = options.scenes or ["*"]
    unknown = [one for one in patterns if not any(fnmatchcase(n, one) for n in catalogue.SCENES)]
    if unknown:
        parser.error(f"no scene is called {', '.join(unknown)}; --list names them")
    options.scenes = [
        name for name in catalogue.SCENES if any(fnmatchcase(name, one) for one in patterns)
    ]
    if options.list:
        print("\n".join(f"{name:28} {catalogue.SCENES[name].covers}" for name in options.scenes))
        sys.exit()
    return options


async def _differences(options: argparse.Namespace, player: RealPlayer) -> int:
    room = asyncio.Semaphore(options.jobs)
    simulated = SimulatedPlayer(options.patience)
    intended, unsteady = load_intended(), load_unsteady()
    found: list[Difference] = []
    used: set[Intended] = set()
    failed: list[str] = []

    async def one(name: str) -> tuple[Transcript, Transcript | None]:
        async with room:
            real = await recorded(name, player, fresh=options.fresh)
            if options.real_only:
                return real, None
            return real, await perform(catalogue.SCENES[name], simulated)

    tasks = {name: asyncio.create_task(one(name)) for name in options.scenes}
    for name, task in tasks.items():
        real, other = await task
        if other is None:
            _print_transcript(name, real, options.width)
            continue
        differences = compare(name, real, other, unsteady)
        unexplained, entries = explain(differences, intended)
        used |= entries
        found += unexplained
        failed += [name] if unexplained else []
        if options.show:
            _print_pairs(real, other, options.width)
        if not options.summary:
            _print_scene(name, real, differences if options.all else unexplained, options)
            _print_stderr(other if unexplained else None)
    if options.summary:
        _print_summary(found)
    if not options.real_only:
        print(f"\n{len(tasks) - len(failed)} of {len(tasks)} scenes agree", end="")
        print(f"; {len(found)} differences in: {' '.join(failed)}" if failed else "")
        _print_stale(intended, used, options.scenes)
    return 1 if failed else 0


async def recorded(name: str, player: RealPlayer, *, fresh: bool = False) -> Transcript:
    """What the real CLI writes in a scene: from the cache, or played now."""
    scene = catalogue.SCENES[name]
    path = CACHE / f"{name}-{_fingerprint(scene)}.json"
    if path.exists() and not fresh:
        return msgspec.json.decode(path.read_bytes(), type=Transcript)
    transcript = await perform(scene, player)
    if any(line["type"] == "stuck" for line in transcript.lines):
        return transcript
    CACHE.mkdir(parents=True, exist_ok=True)
    for old in CACHE.glob(f"{name}-????????????.json"):
        old.unlink(missing_ok=True)
    _write_whole(path, msgspec.json.encode(transcript))
    return transcript


def _write_whole(path: Path, data: bytes) -> None:
    """Writes a file that others may read at any time."""
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(data)
    part.rename(path)


def _fingerprint(scene: Scene) -> str:
    """Changes with what the scene says and does; not with the driver, which is for everybody."""
    digest = hashlib.sha256()
    for name in ("scenario", "play", "perform", "prepare", "arguments", "base", "env", "answers"):
        for trait in _traits(getattr(scene, name), set()):
            digest.update(trait)
    return digest.hexdigest()[:12]


def _traits(value: Any, seen: set[int]) -> Iterator[bytes]:
    """What tells two values apart; of a function its code and everything it refers to."""
    match value:
        case FunctionType():
            if id(value) not in seen:
                seen.add(id(value))
                for each in _substance(value):
                    yield from _traits(each, seen)
        case dict():
            for pair in value.items():
                yield from _traits(pair, seen)
        case list() | tuple():
            for each in value:
                yield from _traits(each, seen)
        case msgspec.Struct():
            yield msgspec.json.encode(value)
        case str() | bytes() | int() | float() | None:
            yield repr(value).encode()
        case _:
            pass


def _substance(function: FunctionType) -> Iterator[Any]:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    yield cells, function.__defaults__, function.__kwdefaults__
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        yield code.co_code, [each for each in code.co_consts if not isinstance(each, CodeType)]
        yield [function.__globals__.get(name) for name in code.co_names]
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]


async def _stability(options: argparse.Namespace, player: RealPlayer) -> int:
    """Compares runs of the real CLI with each other: what differs is not deterministic."""
    room = asyncio.Semaphore(options.jobs)
    unsteady = load_unsteady()

    async def one(name: str) -> list[Transcript]:
        async with room:
            return [
                await perform(catalogue.SCENES[name], player) for _ in range(options.stable + 1)
            ]

    shaky: list[str] = []
    tasks = {name: asyncio.create_task(one(name)) for name in options.scenes}
    for name, task in tasks.items():
        first, *others = await task
        differences = [each for other in others for each in compare(name, first, other, unsteady)]
        shaky += [name] if differences else []
        _print_scene(name, first, differences, options)
        for line in first.lines:
            if line["type"] == "stuck":
                print(f"    STUCK: {line['text']}")
    print(f"\n{len(shaky)} of {len(tasks)} scenes differ between real runs: {' '.join(shaky)}")
    return 1 if shaky else 0


def _print_scene(
    name: str, real: Transcript, differences: list[Difference], options: argparse.Namespace
) -> None:
    verdict = f"{len(differences)} differences" if differences else "ok"
    print(f"{name:28} {verdict}  ({len(real.lines)} lines)", flush=True)
    shown = differences if options.all else differences[:SHOWN]
    for difference in shown:
        print(f"    {difference}"[: options.width])
    if len(shown) < len(differences):
        print(f"    … and {len(differences) - len(shown)} more (--all)")


def _print_stderr(transcript: Transcript | None) -> None:
    lines = transcript.stderr.splitlines() if transcript else []
    for line in lines[-6:]:
        print(f"    stderr: {line}")


def _print_transcript(name: str, transcript: Transcript, width: int) -> None:
    print(f"== {name}")
    for line in normalise(transcript):
        print(_row(" ", line, width))


def _print_pairs(real: Transcript, simulated: Transcript, width: int) -> None:
    for one, other in align(normalise(real), normalise(simulated)):
        if one and other and one.message == other.message:
            print(_row(" ", one, width))
            continue
        for sign, line in (("-", one), ("+", other)):
            if line:
                print(_row(sign, line, width))


def _row(sign: str, line: Line, width: int) -> str:
    body: Any = {name: plain(each) for name, each in line.message.items() if name not in _HIDDEN}
    return f"{sign}{line.number:>3} {line.kind}  {msgspec.json.encode(body).decode()}"[:width]


_HIDDEN = {"type", "subtype", "uuid", "session_id", "timestamp"}


def _print_summary(found: list[Difference]) -> None:
    counts = Counter((each.message, each.path, each.kind) for each in found)
    for (message, path, kind), number in counts.most_common():
        print(f"{number:>5} {message} {path}: {kind}")


def _print_stale(intended: list[Intended], used: set[Intended], scenes: list[str]) -> None:
    whole = len(scenes) == len(catalogue.SCENES)
    for entry in intended:
        due = any(entry.is_due_in(scene) for scene in scenes)
        if entry not in used and (whole or due):
            print(f"stale: {entry.message} {entry.path} ({entry.reason})")


if __name__ == "__main__":
    raise SystemExit(main())
