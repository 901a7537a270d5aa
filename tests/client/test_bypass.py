"""The gate to bypassPermissions: no way through it unless the caller opened it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pilothouse import BypassNotAllowed, InvalidOption, Options
from pilothouse.client.bypass import DEEPEST, LARGEST_FILE, MOST, BypassGate
from pilothouse.client.launch import prepare
from pilothouse.protocol import Initialize, SetMode, SetPermissionMode

CLI = "/bin/true"
BYPASS: Any = "bypassPermissions"
SETTINGS = {"permissions": {"defaultMode": BYPASS}}
AGENTS = {"lookout": {"description": "a", "prompt": "b", "permissionMode": BYPASS}}

shut = BypassGate(allowed=False)
opened = BypassGate(allowed=True)


@pytest.mark.parametrize(
    "given",
    [
        {"permission_mode": BYPASS},
        {"agents": AGENTS},
        {"settings": SETTINGS},
        {"settings": json.dumps(SETTINGS)},
        {"settings": " \n" + json.dumps(SETTINGS)},
        {"managed_settings": SETTINGS},
        {"extra_args": {"dangerously-skip-permissions": None}},
        {"extra_args": {"--dangerously-skip-permissions": None}},
        {"extra_args": {"allow-dangerously-skip-permissions": None}},
        {"extra_args": {"permission-mode": BYPASS}},
        {"extra_args": {"permission-mode=bypassPermissions": None}},
        {"extra_args": {"settings": json.dumps(SETTINGS)}},
        {"extra_args": {"agents": json.dumps(AGENTS)}},
    ],
    ids=str,
)
def test_no_option_bypasses_permissions_unless_that_is_allowed(given: dict[str, Any]):
    with pytest.raises(BypassNotAllowed, match="allow_bypass=True"):
        prepare(Options(cli_path=CLI, **given))
    prepare(Options(cli_path=CLI, allow_bypass=True, **given)).clean_up()


@pytest.mark.parametrize("as_text", [True, False])
def test_no_settings_file_bypasses_permissions(tmp_path: Path, as_text: bool):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(SETTINGS))
    with pytest.raises(BypassNotAllowed, match="settings"):
        prepare(Options(cli_path=CLI, settings=str(path) if as_text else path))


@pytest.mark.parametrize(
    "given",
    [
        {"permission_mode": "acceptEdits"},
        {"settings": "/no/such/file.json"},
        {"settings": "{no json"},
        {"settings": {"note": BYPASS}},
        {"agents": {"a": {"description": BYPASS, "prompt": BYPASS}}},
        {"extra_args": {"name": "", "switch": None}},
        {"system_prompt": f"Never use {BYPASS}."},
    ],
    ids=str,
)
def test_what_does_not_set_the_mode_passes(given: dict[str, Any]):
    prepare(Options(cli_path=CLI, **given)).clean_up()


def test_the_flag_is_passed_only_where_it_is_allowed():
    flag = "--allow-dangerously-skip-permissions"
    assert flag not in prepare(Options(cli_path=CLI)).argv
    assert flag in prepare(Options(cli_path=CLI, allow_bypass=True)).argv


@pytest.mark.parametrize(
    "value",
    [
        SetPermissionMode(mode=BYPASS),
        {"subtype": "set_permission_mode", "mode": BYPASS},
        {"settings": SETTINGS},
        {"a": [{"b": {"permission_mode": BYPASS}}]},
        [SetMode(mode=BYPASS, destination="session")],
    ],
    ids=str,
)
def test_the_mode_is_found_wherever_it_stands(value: Any):
    with pytest.raises(BypassNotAllowed, match="here"):
        shut.check("here", value)
    opened.check("here", value)


@pytest.mark.parametrize("subtype", ["mcp_message", "mcp_call"])
def test_what_goes_to_an_mcp_server_is_not_read(subtype: str):
    shut.check_request(subtype, {"arguments": {"mode": BYPASS}})


def test_a_control_request_is_read():
    with pytest.raises(BypassNotAllowed, match="apply_flag_settings"):
        shut.check_request("apply_flag_settings", {"settings": SETTINGS})


SETTING = '{"permissions":{"defaultMode":"bypassPermissions"}}'
UNREADABLE = {
    "with a byte order mark": b"\xef\xbb\xbf" + SETTING.encode(),
    "with half a surrogate pair": SETTING.replace("{", '{"x":"\\ud800",', 1).encode(),
    "with bytes that are no text": SETTING.encode().replace(b"{", b'{"x":"\xff",', 1),
    "with a comment, which is no JSON": b"// mine\n" + SETTING.encode(),
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=list(UNREADABLE))
def test_a_file_a_cli_might_read_another_way_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.json").write_bytes(content)
    with pytest.raises(BypassNotAllowed):
        BypassGate(allowed=False).check_options(Options(settings=tmp_path / "s.json"))


@pytest.mark.parametrize("given", [{"settings": "s.json"}, {"extra_args": {"settings": "s.json"}}])
def test_a_file_is_looked_for_where_the_cli_will_look(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    (tmp_path / "s.json").write_text(SETTING)
    with pytest.raises(BypassNotAllowed):
        BypassGate(allowed=False).check_options(Options(cwd=tmp_path, **given))


@pytest.mark.parametrize("text", ["\ufeff" + SETTING, SETTING.replace("{", '{"x":"\ud800",', 1)])
def test_a_text_a_cli_might_read_another_way_is_refused(text: str) -> None:
    with pytest.raises(BypassNotAllowed):
        BypassGate(allowed=False).check_options(Options(settings=text))


def test_a_tuple_hides_nothing() -> None:
    with pytest.raises(BypassNotAllowed):
        BypassGate(allowed=False).check("x", ({"a": ({"mode": "bypassPermissions"},)},))


SETTING_OPTIONS: list[dict[str, Any]] = [
    {"settings": "it"},
    {"extra_args": {"settings": "it"}},
    {"extra_args": {"settings=it": None}},
    {"extra_args": {"--managed-settings": "it"}},
    {"extra_args": {"agents": "it"}},
]


@pytest.mark.parametrize("given", SETTING_OPTIONS, ids=str)
def test_settings_are_read_from_no_pipe(tmp_path: Path, given: dict[str, Any]) -> None:
    os.mkfifo(tmp_path / "it")
    with pytest.raises(InvalidOption, match="no regular file"):
        shut.check_options(Options(cwd=tmp_path, **given))


@pytest.mark.parametrize("given", SETTING_OPTIONS, ids=str)
def test_settings_are_read_from_no_device(tmp_path: Path, given: dict[str, Any]) -> None:
    (tmp_path / "it").symlink_to("/dev/zero")
    with pytest.raises(InvalidOption, match="no regular file"):
        shut.check_options(Options(cwd=tmp_path, **given))


@pytest.mark.parametrize("given", SETTING_OPTIONS, ids=str)
def test_a_file_too_large_to_be_read_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with (tmp_path / "it").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(InvalidOption, match=r"over \d+ bytes"):
        shut.check_options(Options(cwd=tmp_path, **given))


def test_no_other_flag_is_taken_for_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text(SETTING)
    flags = {"mcp-config": "pipe", "name": "file", "debug-file": "pipe"}
    shut.check_options(Options(cwd=tmp_path, extra_args=flags))


def nested(depth: int, innermost: Any) -> Any:
    value = innermost
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


def test_the_mode_is_found_however_deep_it_stands() -> None:
    with pytest.raises(BypassNotAllowed):
        shut.check("x", nested(600, {"mode": BYPASS}))
    shut.check("x", nested(600, {"mode": "plan"}))


def test_what_is_too_deep_for_the_wire_is_refused() -> None:
    with pytest.raises(InvalidOption, match="flatter"):
        shut.check("x", nested(DEEPEST + 1, {"mode": "plan"}))
    around: dict[str, Any] = {}
    around["around"] = around
    with pytest.raises(InvalidOption, match="flatter"):
        shut.check("x", around)


def test_what_was_left_out_of_a_request_is_not_read() -> None:
    shut.check("x", SetMode(mode="plan", destination="session"))
    shut.check("x", Initialize())


@pytest.mark.parametrize("inner", [0, "x", [], [0], {"a": "b"}], ids=str)
def test_more_values_than_can_be_looked_at_are_refused(inner: Any):
    gate = BypassGate(allowed=False)
    gate.check("settings", {"a": [inner] * (MOST // 4)})
    with pytest.raises(InvalidOption, match=f"settings has more than {MOST} values; make it"):
        gate.check("settings", {"a": [inner] * (MOST + 1)})
    BypassGate(allowed=True).check("settings", {"a": [inner] * (MOST + 1)})


def test_the_mode_is_seen_among_many_values():
    many = {str(number): [number, [], {}, "x"] for number in range(10_000)}
    with pytest.raises(BypassNotAllowed):
        BypassGate(allowed=False).check("settings", {**many, "a": [{"defaultMode": BYPASS}]})
