from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from pilothouse_sim import real_cli
from pilothouse_sim.real_cli import (
    CLI_WHEELS,
    NODE_CLIS,
    ORDINARY,
    FetchError,
    environment,
    extract,
    fetch,
    main,
)

MEMBER = "claude_agent_sdk/_bundled/claude"


def wheel(folder: Path, *, version: str = "0.0.1", member: str = MEMBER) -> Path:
    path = folder / f"claude_agent_sdk-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("claude_agent_sdk/__init__.py", "")
        archive.writestr(member, "#!/bin/sh\necho 0.0.1\n")
    return path


def test_the_binary_alone_is_taken_out_and_can_be_run(tmp_path: Path) -> None:
    binary = extract(wheel(tmp_path), tmp_path / "cache" / "0.0.1" / "claude")
    assert subprocess.run([binary], capture_output=True, check=True).stdout == b"0.0.1\n"
    assert [entry.name for entry in binary.parent.iterdir()] == ["claude"]


def test_a_wheel_without_a_cli_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "claude"
    with pytest.raises(FetchError, match="carries no CLI for this platform"):
        extract(wheel(tmp_path, member="other"), target)
    assert list(target.parent.iterdir()) == []


def test_a_damaged_wheel_is_an_error_of_its_own(tmp_path: Path) -> None:
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"not a zip")
    with pytest.raises(FetchError):
        extract(broken, tmp_path / "claude")


def test_what_is_in_the_cache_is_not_fetched_again(tmp_path: Path) -> None:
    present = tmp_path / "2.1.325" / "claude"
    present.parent.mkdir()
    present.touch()
    assert fetch("2.1.325", tmp_path) == present


def test_an_unknown_version_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"2\.1\.325"):
        fetch("9.9.9", tmp_path)


def test_a_failed_download_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert main(["--cache", str(tmp_path), "2.1.37"]) == 1
    message = capsys.readouterr().err
    assert "could not download claude-agent-sdk==0.1.33" in message
    assert "check the network" in message
    assert message.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_every_wheel_is_pinned_by_hashes_and_names_no_package_index() -> None:
    pins = Path(real_cli.__file__).with_name("cli_wheels")
    assert {path.stem for path in pins.iterdir()} == set(CLI_WHEELS)
    hashed = r"( \\\n    --hash=sha256:[0-9a-f]{64})+"
    for version, wheel_version in CLI_WHEELS.items():
        comment, pin = (pins / f"{version}.txt").read_text().split("\n", 1)
        assert comment == f"# Written by scripts/lock for CLI {version}."
        assert re.fullmatch(rf"claude-agent-sdk=={re.escape(wheel_version)}{hashed}\n", pin)


def test_a_wheel_with_another_hash_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, cache = tmp_path / "index", tmp_path / "cache"
    index.mkdir()
    wheel(index, version=CLI_WHEELS["2.1.37"])
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    with pytest.raises(FetchError, match=r"0\.1\.33 is not the one that is pinned"):
        fetch("2.1.37", cache)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], ORDINARY), (["--all"], [*CLI_WHEELS, *NODE_CLIS]), (["2.1.92"], ["2.1.92"])],
)
def test_the_module_prints_where_each_cli_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: Sequence[str],
) -> None:
    packed = bring_npm(tmp_path, monkeypatch)
    monkeypatch.setattr(real_cli, "_download", lambda _version, folder: wheel(folder))
    for version in NODE_CLIS:
        monkeypatch.setitem(NODE_CLIS, version, (f"it@{version}", integrity(packed)))
    monkeypatch.setenv("PILOTHOUSE_CACHE", str(tmp_path))
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [str(tmp_path / version / "claude") for version in expected]


def test_the_ordinary_tests_need_clis_that_are_known() -> None:
    assert set(ORDINARY) <= {*CLI_WHEELS, *NODE_CLIS}


def test_the_cache_must_be_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PILOTHOUSE_CACHE", raising=False)
    with pytest.raises(SystemExit):
        main([])
    assert "--cache DIR" in capsys.readouterr().err


def test_the_environment_inherits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "a real one")
    env = environment(tmp_path, "http://127.0.0.1:1", EXTRA="yes")
    assert "ANTHROPIC_AUTH_TOKEN" not in env
    assert env["HOME"] == str(tmp_path)
    assert Path(env["CLAUDE_CONFIG_DIR"]).is_relative_to(tmp_path)
    assert (env["ANTHROPIC_BASE_URL"], env["EXTRA"]) == ("http://127.0.0.1:1", "yes")
    assert env["DISABLE_TELEMETRY"] == env["DISABLE_AUTOUPDATER"] == "1"


def bring_npm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a Node and an npm on the path, which packs what is in the folder it returns."""
    package, programs = folder / "package", folder / "bin"
    package.mkdir()
    programs.mkdir()
    (package / "cli.js").write_text("echo from $0 $@\n")
    with tarfile.open(folder / "packed.tgz", "w:gz") as archive:
        archive.add(package, "package")
    for name, does in (("node", 'exec sh "$@"'), ("npm", f'cp {folder}/packed.tgz "$5/it.tgz"')):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.delenv("PILOTHOUSE_NODE", raising=False)
    return folder / "packed.tgz"


def integrity(path: Path) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()


def test_a_build_for_node_becomes_a_program_like_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = bring_npm(tmp_path, monkeypatch)
    monkeypatch.setitem(NODE_CLIS, "0.0.1-node", ("it@0.0.1", integrity(packed)))
    binary = fetch("0.0.1-node", tmp_path / "cache")
    assert binary == tmp_path / "cache/0.0.1-node/claude"
    said = subprocess.run([binary, "a b"], capture_output=True, check=True, text=True).stdout
    assert said == f"from {binary.parent}/package/cli.js a b\n"
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == ["0.0.1-node"]


def test_a_package_with_another_hash_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_npm(tmp_path, monkeypatch)
    with pytest.raises(FetchError, match="its hash differs"):
        fetch("2.1.37-node", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_every_package_is_pinned_by_a_whole_hash() -> None:
    for version, (package, pin) in NODE_CLIS.items():
        assert version == f"{package.rpartition('@')[2]}-node"
        assert len(base64.b64decode(pin.removeprefix("sha512-"))) == 64
