from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pilothouse.testing import real_cli
from pilothouse.testing.real_cli import CLI_WHEELS, FetchError, environment, extract, fetch, main

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


def test_the_module_prints_where_each_cli_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(real_cli, "_download", lambda _version, folder: wheel(folder))
    monkeypatch.setenv("PILOTHOUSE_CACHE", str(tmp_path))
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [str(tmp_path / version / "claude") for version in CLI_WHEELS]


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
