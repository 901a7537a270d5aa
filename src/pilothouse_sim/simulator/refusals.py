"""What the CLI says and does when the API refuses a call, by status and by the API's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from pilothouse_sim.scenario import ApiError

__all__ = ["ApiRefusal", "class_of", "is_passing", "is_too_large", "is_worth_variants", "read"]

_CLASSES: Final = {
    401: "authentication_failed",
    403: "authentication_failed",
    404: "model_not_found",
    429: "rate_limit",
    529: "overloaded",
}
_TOO_LARGE: Final = (
    "Request too large (max 32MB). Accumulated images and attachments in the conversation pushed "
    "the request over the limit. Remove older images or compact the conversation."
)


class ApiRefusal(Struct, frozen=True, kw_only=True):
    """A call that was refused for good, as the CLI reports it."""

    words: str
    error: str = "unknown"
    """The kind of error, in the CLI's names for them."""
    reason: str = "api_error"
    """Why the turn ends, as its result says it."""


def class_of(status: int) -> str:
    """The kind of error that is told while it is tried again."""
    return _CLASSES.get(
        status, "server_error" if status in (408, 409) or status >= 500 else "unknown"
    )


def is_passing(error: ApiError) -> bool:
    """Whether it may go better in a moment."""
    if error.headers.get("x-should-retry") == "false":
        return False
    return error.status in (401, 408, 409, 429) or error.status >= 500


def is_too_large(error: ApiError) -> bool:
    """Whether a shorter conversation could help."""
    return error.status == 413 or _says(error, "prompt is too long")


def is_worth_variants(error: ApiError) -> bool:
    """Whether the CLI tries again at once with a request that asks for less."""
    known = is_too_large(error) or _says(error, "credit balance is too low")
    return error.status in (400, 422) and not known


def read(error: ApiError, *, model: str, base_url: str) -> ApiRefusal:
    """What the CLI makes of an error that stays."""
    plain = f"API Error: {error.status} {error.message}"
    match error.status:
        case 400 if _says(error, "prompt is too long"):
            return ApiRefusal(
                words="Prompt is too long", error="invalid_request", reason="prompt_too_long"
            )
        case 400 if _says(error, "credit balance is too low"):
            return ApiRefusal(words="Credit balance is too low", error="billing_error")
        case 401 | 403:
            return ApiRefusal(
                words=f"Failed to authenticate. {plain}", error="authentication_failed"
            )
        case 404:
            return ApiRefusal(words=_no_such_model(model), error="model_not_found")
        case 413:
            return ApiRefusal(words=_TOO_LARGE, error="invalid_request", reason="image_error")
        case 429:
            words = f"API Error: Request rejected (429) · {error.message}"
            return ApiRefusal(words=words, error="rate_limit")
        case status if status >= 500:
            return ApiRefusal(words=plain + _later(base_url), error="server_error")
        case _:
            return ApiRefusal(words=plain)


def _says(error: ApiError, words: str) -> bool:
    return words in error.message.lower()


def _no_such_model(model: str) -> str:
    return (
        f"There's an issue with the selected model ({model}). It may not exist or you may not have "
        "access to it. Run --model to pick a different model."
    )


def _later(base_url: str) -> str:
    words = " This is a server-side issue, usually temporary — try again in a moment."
    host = base_url.partition("://")[2].partition("/")[0]
    return words + (f" If it persists, check your inference gateway ({host})." if host else "")
