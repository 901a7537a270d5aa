"""The cookie of a signed-in browser, as it is sent and as it comes back.

Browsers share cookies among all ports of a host. So its name has the port, by which two servers
of a machine do not sign each other's users out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pilothouse.faces.http.entrance import header, headers, without_port

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["clear_cookie", "cookies_of", "set_cookie"]

DEFAULT_PORTS: Final = {"https": "443", "wss": "443"}
MOST: Final = 4
"""Another server of the host may have set some of the same name; not for us to look through all."""


def cookies_of(scope: Scope) -> list[str]:
    """The values of the cookies of our name that a request has."""
    given = headers(scope, b"cookie")
    if not given:
        return []
    name = _name(scope)
    pairs = (pair.partition("=") for each in given for pair in each.split(";"))
    return [value.strip() for each, _, value in pairs if each.strip() == name][:MOST]


def set_cookie(scope: Scope, value: str, seconds: int) -> tuple[bytes, bytes]:
    """The header that gives a browser its cookie."""
    # Behind a proxy that ends TLS, the scheme is not the browser's; its Origin is.
    origin = header(scope, b"origin") or ""
    is_https = scope["scheme"] == "https" or origin.lower().startswith("https:")
    cookie = f"{_name(scope)}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict"
    return b"set-cookie", f"{cookie}{'; Secure' if is_https else ''}".encode("latin-1")


def clear_cookie(scope: Scope) -> tuple[bytes, bytes]:
    """The header that takes it away again."""
    return set_cookie(scope, "", 0)


def _name(scope: Any) -> str:
    """Named by the port that the browser uses, which need not be the one we listen on."""
    host = header(scope, b"host") or ""
    port = host[len(without_port(host)) + 1 :] or DEFAULT_PORTS.get(scope["scheme"], "80")
    return f"pilothouse-{port}"
