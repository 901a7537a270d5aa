"""Brings real Claude Code CLIs to tests: the binaries inside the `claude-agent-sdk` wheels.

Every wheel is pinned by its hashes, for all platforms, in `cli_wheels/VERSION.txt` beside this
module; `scripts/lock` writes those files from `CLI_WHEELS`. A build for Node comes from npm, by
the hash in `NODE_CLIS`.

`python -m pilothouse_sim.real_cli --cache DIR [--all | VERSION ...]` fetches them ahead of time.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

__all__ = [
    "CLI_WHEELS",
    "NODE_CLIS",
    "ORDINARY",
    "FetchError",
    "environment",
    "extract",
    "fetch",
    "main",
]

CLI_WHEELS = {
    "2.1.325": "0.2.182",
    "2.1.235": "0.2.140",
    "2.1.176": "0.2.100",
    "2.1.139": "0.1.81",
    "2.1.119": "0.1.68",
    "2.1.92": "0.1.56",
    "2.1.59": "0.1.44",
    "2.1.37": "0.1.33",
}
"""The CLI's version and the version of the wheel that carries it."""

NODE_CLIS = {
    "2.1.62-node": (
        "@anthropic-ai/claude-code@2.1.62",
        "sha512-IzslR/dbIlQj0W1bqd9opLaSsSknhwLZVZ3i03LlanWbe1MczBskQn6Veg5CgzmZeWEwKJR1kR3+5t4bCUmLmg==",
    ),
    "2.1.37-node": (
        "@anthropic-ai/claude-code@2.1.37",
        "sha512-YNrhAhWh/WAXAibZWfGBIUcMp+5caHGJKPkOjKSgYnCNQf7f+fP7eVTF1tr5FvvEksk2d9/HJgnh1fqOo1mP/A==",
    ),
}
"""The CLIs that Node runs: the package that is one, and its hash as npm writes it."""

ORDINARY = ("2.1.325", "2.1.119", "2.1.37", "2.1.37-node")
"""Those that the ordinary tests run on; the others are tried when everything is proved."""

_PINS = Path(__file__).with_name("cli_wheels")
_MEMBER = "claude_agent_sdk/_bundled/claude"


class FetchError(Exception):
    """A CLI could not be brought; the text says what to do about it."""


def fetch(version: str, cache: Path) -> Path:
    """The path of the CLI of this version, downloaded into the cache unless it is there."""
    binary = cache / version / "claude"
    if binary.exists():
        return binary
    if version not in CLI_WHEELS and version not in NODE_CLIS:
        known = ", ".join([*CLI_WHEELS, *NODE_CLIS])
        raise FetchError(f"no wheel is known for CLI {version}; choose one of: {known}")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as folder:
        if version in NODE_CLIS:
            return _unpack_package(_download_package(version, Path(folder)), binary)
        return extract(_download(version, Path(folder)), binary)


def extract(wheel: Path, binary: Path) -> Path:
    """Take the CLI out of a wheel; it appears at its place complete or not at all."""
    binary.parent.mkdir(parents=True, exist_ok=True)
    part = binary.with_name(f"{binary.name}.{os.getpid()}.part")
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(_MEMBER) as source,
            part.open("wb") as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)
        part.chmod(0o755)
        return part.rename(binary)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{wheel.name} carries no CLI for this platform: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def environment(home: Path, base_url: str, **extra: str) -> dict[str, str]:
    """The whole environment for a CLI that talks to a scripted model and to nobody else."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "LANG": "C.UTF-8",
        "TMPDIR": tempfile.gettempdir(),
        "ANTHROPIC_API_KEY": "sk-ant-scripted-0000",
        "ANTHROPIC_BASE_URL": base_url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    } | extra


def main(arguments: list[str] | None = None) -> int:
    """Fetch the named versions, those that the ordinary tests need, or all that are known."""
    parser = argparse.ArgumentParser(prog="python -m pilothouse_sim.real_cli")
    parser.add_argument("--cache", type=Path, default=_default_cache())
    parser.add_argument("--all", action="store_true")
    parser.add_argument("versions", nargs="*", default=ORDINARY)
    options = parser.parse_args(arguments)
    if options.cache is None:
        parser.error("say where to keep the CLIs: --cache DIR or PILOTHOUSE_CACHE")
    try:
        for version in [*CLI_WHEELS, *NODE_CLIS] if options.all else options.versions:
            print(fetch(version, options.cache), flush=True)
    except FetchError as error:
        sys.stderr.write(f"real_cli: {error}\n")
        return 1
    return 0


def _default_cache() -> Path | None:
    named = os.environ.get("PILOTHOUSE_CACHE")
    return Path(named) if named else None


def _download(version: str, folder: Path) -> Path:
    wanted = f"claude-agent-sdk=={CLI_WHEELS[version]}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    command += ["--require-hashes", "--requirement", str(_PINS / f"{version}.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise FetchError(
            f"the wheel for {wanted} is not the one that is pinned: its hash differs; "
            "take it from another package index"
        )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise FetchError(
            f"could not download {wanted} ({last}); check the network and pip, then run again"
        )
    return wheels[0]


def _download_package(version: str, folder: Path) -> Path:
    wanted, integrity = NODE_CLIS[version]
    command = [*_npm(), "pack", wanted, "--silent", "--pack-destination", str(folder)]
    # npm is a script that Node must be found for.
    path = os.pathsep.join([str(Path(_node()).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    packages = list(folder.glob("*.tgz"))
    if done.returncode or not packages:
        last = (done.stderr.strip().splitlines() or ["no package came"])[-1]
        raise FetchError(
            f"could not download {wanted} ({last}); check the network and npm, then run again"
        )
    digest = base64.b64encode(hashlib.sha512(packages[0].read_bytes()).digest()).decode()
    if f"sha512-{digest}" != integrity:
        raise FetchError(
            f"the package {wanted} is not the one that is pinned: its hash differs; "
            "take it from another npm registry"
        )
    return packages[0]


def _unpack_package(package: Path, binary: Path) -> Path:
    """Put the CLI where it belongs, with a program that has Node run it: all of it or nothing."""
    part = package.parent / "unpacked"
    with tarfile.open(package) as archive:
        # Its hash was checked. Python has the filter since 3.11.4.
        if hasattr(tarfile, "data_filter"):
            archive.extractall(part, filter="data")
        else:
            archive.extractall(part)
    program = part / binary.name
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(_node())} "${{0%/*}}/package/cli.js" "$@"\n')
    program.chmod(0o755)
    part.rename(binary.parent)
    return binary


def _node() -> str:
    node = os.environ.get("PILOTHOUSE_NODE") or shutil.which("node")
    if node is None:
        raise FetchError("a CLI for Node needs Node 18 or newer: install it, then run again")
    return node


def _npm() -> list[str]:
    # The npm that came with this Node, wherever that is known.
    beside = Path(_node()).parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    npm = shutil.which("npm")
    if beside.exists():
        return [_node(), str(beside)]
    if npm is None:
        raise FetchError("a CLI for Node needs npm: install it, then run again")
    return [npm]


if __name__ == "__main__":
    raise SystemExit(main())
