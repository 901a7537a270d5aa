"""What the CLI refuses before it starts: flags that do not go together, missing files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

import msgspec

from pilothouse_sim.simulator.flags import BadFlag

if TYPE_CHECKING:
    from pilothouse_sim.simulator.flags import LaunchFlags

__all__ = ["check", "refuse_root"]

_SOURCES: Final = ("user", "project", "local")


def check(launch: LaunchFlags) -> None:
    """Raise `BadFlag` with the CLI's own words for what is wrong."""
    _check_formats(launch)
    _check_identity(launch)
    _check_files(launch)
    if launch.json_schema:
        _check_schema(launch.json_schema)


def _check_formats(launch: LaunchFlags) -> None:
    streams_out = launch.output_format == "stream-json"
    streams_in = launch.input_format == "stream-json"
    if streams_in and not streams_out:
        raise BadFlag("Error: --input-format=stream-json requires output-format=stream-json.")
    if launch.sdk_url and not (streams_in and streams_out):
        raise BadFlag(
            "Error: --sdk-url requires both --input-format=stream-json and "
            "--output-format=stream-json."
        )
    if launch.replay_user_messages and not (streams_in and streams_out):
        raise BadFlag(
            "Error: --replay-user-messages requires both --input-format=stream-json and "
            "--output-format=stream-json."
        )
    if launch.include_partial_messages and not streams_out:
        raise BadFlag(
            "Error: --include-partial-messages requires --print and --output-format=stream-json."
        )
    if streams_out and not launch.verbose and not launch.sdk_url:
        raise BadFlag("Error: When using --print, --output-format=stream-json requires --verbose")


def _check_identity(launch: LaunchFlags) -> None:
    if launch.dangerously_skip_permissions:
        refuse_root()
    if launch.session_id is not None and not _is_uuid(launch.session_id):
        raise BadFlag("Error: Invalid session ID. Must be a valid UUID.")
    for source in filter(None, (launch.setting_sources or "").split(",")):
        if source.strip() not in _SOURCES:
            raise BadFlag(
                f"Error processing --setting-sources: Invalid setting source: {source.strip()}. "
                f"Valid options are: {', '.join(_SOURCES)}"
            )


def refuse_root() -> None:
    """Root bypasses permissions only in what is declared to be a sandbox."""
    if os.getuid() == 0 and os.environ.get("IS_SANDBOX") != "1":
        raise BadFlag(
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security "
            "reasons"
        )


def _is_uuid(words: str) -> bool:
    try:
        return str(UUID(words)) == words.lower()
    except ValueError:
        return False


def _check_files(launch: LaunchFlags) -> None:
    if launch.settings and _read_object(launch.settings) is None:
        _require(launch.settings, "Error: Settings file not found: {}")
    if launch.system_prompt_file:
        _require(launch.system_prompt_file, "Error: System prompt file not found: {}")
    if launch.append_system_prompt_file:
        _require(launch.append_system_prompt_file, "Error: Append system prompt file not found: {}")
    for given in launch.mcp_config:
        _check_servers(given)


def _require(given: str, words: str) -> None:
    path = Path.cwd() / given
    if not path.exists():
        raise BadFlag(words.format(path))


def _check_servers(given: str) -> None:
    table = _read_object(given)
    if table is None:
        _require(given, "Error: Invalid MCP configuration:\nMCP config file not found: {}")
    elif not isinstance(table.get("mcpServers"), dict):
        raise BadFlag(
            "Error: Invalid MCP configuration:\n"
            "mcpServers: Invalid input: expected record, received undefined"
        )


def _read_object(given: str) -> dict[str, Any] | None:
    """A value that is given as JSON itself; None for the name of a file."""
    try:
        found = msgspec.json.decode(given)
    except msgspec.DecodeError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _check_schema(given: str) -> None:
    # Few sessions have an answer to shape.
    from pilothouse_sim.simulator.json_schema import BadSchema, read_schema

    try:
        read_schema(given)
    except BadSchema as error:
        raise BadFlag(str(error)) from None
