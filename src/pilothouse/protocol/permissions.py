"""Permission modes, rules, updates of them, and the answers to a permission request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import UNSET, Raw, UnsetType, field

from .wire import JsonObject, Record, Unread, always, convert, members, parse

__all__ = [
    "AddDirectories",
    "AddRules",
    "DecisionClassification",
    "PermissionAllow",
    "PermissionBehavior",
    "PermissionDeny",
    "PermissionDestination",
    "PermissionMode",
    "PermissionResult",
    "PermissionRule",
    "PermissionUpdate",
    "RemoveDirectories",
    "RemoveRules",
    "ReplaceRules",
    "SetMode",
    "UnknownUpdate",
    "decode_permission_result",
    "decode_updates",
]

PermissionMode = Literal["default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto"]
PermissionBehavior = Literal["allow", "deny", "ask"]
PermissionDestination = Literal[
    "userSettings", "projectSettings", "localSettings", "session", "cliArg"
]
DecisionClassification = Literal["user_temporary", "user_permanent", "user_reject"]


class PermissionRule(Record, rename="camel"):
    """A tool, and what of it: `Bash`, `npm test:*`."""

    tool_name: str = always("")
    rule_content: str | None = None


class _Update(Record, tag_field="type", rename="camel"):
    @property
    def type(self) -> str:
        """The update's `type` on the wire."""
        return str(self.__struct_config__.tag)


class _RulesUpdate(_Update):
    rules: list[PermissionRule] = always([])
    behavior: PermissionBehavior = always("allow")
    destination: PermissionDestination = always("session")


class AddRules(_RulesUpdate, tag="addRules"):
    """Add rules. A destination other than `session` and `cliArg` writes a settings file."""


class ReplaceRules(_RulesUpdate, tag="replaceRules"):
    """Replace the rules of that behaviour and destination."""


class RemoveRules(_RulesUpdate, tag="removeRules"):
    """Remove rules."""


class SetMode(_Update, tag="setMode"):
    """Change the permission mode."""

    mode: PermissionMode = always("default")
    destination: PermissionDestination = always("session")


class _DirectoriesUpdate(_Update):
    directories: list[str] = always([])
    destination: PermissionDestination = always("session")


class AddDirectories(_DirectoriesUpdate, tag="addDirectories"):
    """Let the session work in these directories."""


class RemoveDirectories(_DirectoriesUpdate, tag="removeDirectories"):
    """Take directories away from the session."""


class UnknownUpdate(Unread):
    """An update of a type this version does not know."""


KnownUpdate = AddRules | ReplaceRules | RemoveRules | SetMode | AddDirectories | RemoveDirectories

# The decoder takes tagged structs only; unknown updates are put in by `decode_updates`.
if TYPE_CHECKING:
    PermissionUpdate = KnownUpdate | UnknownUpdate
else:
    PermissionUpdate = KnownUpdate

_UPDATES: dict[str, type[KnownUpdate]] = {
    "addRules": AddRules,
    "replaceRules": ReplaceRules,
    "removeRules": RemoveRules,
    "setMode": SetMode,
    "addDirectories": AddDirectories,
    "removeDirectories": RemoveDirectories,
}


class PermissionAllow(Record, tag_field="behavior", tag="allow", rename="camel"):
    """Let the tool run. Older CLIs refuse it without `updated_input`, the whole of it."""

    updated_input: JsonObject | UnsetType = UNSET
    updated_permissions: list[PermissionUpdate] | UnsetType = UNSET
    tool_use_id: str | UnsetType = field(default=UNSET, name="toolUseID")
    decision_classification: DecisionClassification | UnsetType = UNSET


class PermissionDeny(Record, tag_field="behavior", tag="deny", rename="camel"):
    """Do not let the tool run; the model reads `message`, which must not be empty."""

    message: str = always("Denied.")
    interrupt: bool | UnsetType = UNSET
    tool_use_id: str | UnsetType = field(default=UNSET, name="toolUseID")
    decision_classification: DecisionClassification | UnsetType = UNSET


PermissionResult = PermissionAllow | PermissionDeny


def decode_updates(raw: bytes | Raw) -> list[PermissionUpdate]:
    """A list of permission updates; what is no object is left out."""
    return read_updates(parse(raw))


def read_updates(value: Any) -> list[PermissionUpdate]:
    """As `decode_updates`, from plain values."""
    given = cast(list[Any], value) if isinstance(value, list) else []
    return [_read_update(cast(JsonObject, each)) for each in given if type(each) is dict]


def _read_update(given: JsonObject) -> PermissionUpdate:
    kind = given.get("type")
    known = _UPDATES.get(kind) if isinstance(kind, str) else None
    return UnknownUpdate(given) if known is None else convert(known, given)


def decode_permission_result(raw: bytes | Raw) -> PermissionResult | None:
    """The answer to a permission request, read as a CLI does; None where it is none."""
    given = members(raw)
    match given.get("behavior"):
        case "allow":
            allow = convert(PermissionAllow, given)
            if "updatedPermissions" in given:
                allow.updated_permissions = read_updates(given["updatedPermissions"])
            return allow
        case "deny":
            return convert(PermissionDeny, given)
        case _:
            return None
