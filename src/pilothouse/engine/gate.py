"""The operator's one gate to bypassPermissions, for every way a caller has to an engine."""

from __future__ import annotations

from typing import Any, Final

from pilothouse.client.bypass import BypassGate
from pilothouse.client.options import Options
from pilothouse.errors import BypassNotAllowed, InvalidOption

from .launch_options import check_flags

__all__ = ["OperatorGate"]

ADVICE: Final = "the operator has to allow it first: allow_bypass, or PILOTHOUSE_ALLOW_BYPASS=true"


class OperatorGate:
    """Open or shut for the whole engine, whatever a CLI would accept."""

    def __init__(self, *, allowed: bool) -> None:
        self.allowed = allowed
        self._gate = BypassGate(allowed=allowed)

    def check(self, where: str, value: Any) -> None:
        """Refuse a value that sets the mode anywhere within it."""
        try:
            self._gate.check(where, value)
        except BypassNotAllowed as error:
            raise BypassNotAllowed(error.where, advice=ADVICE) from None

    def check_mode(self, where: str, mode: str | None) -> None:
        """Refuse the mode itself."""
        self.check(where, {"mode": mode})

    def check_options(self, options: Options) -> None:
        """Refuse options that would start a CLI in it, or let it go there."""
        try:
            self._gate.check_options(options)
        except BypassNotAllowed as error:
            raise BypassNotAllowed(_as_asked(error.where), advice=ADVICE) from None
        except InvalidOption:
            check_flags(options.extra_args)
            raise
        check_flags(options.extra_args)


def _as_asked(where: str) -> str:
    """An option by the name that callers of an engine know it by."""
    return "mode" if where == "permission_mode" else where.replace("extra_args[", "flags[", 1)
