"""The control protocol: requests and responses, either way, and what the CLI asks.

    ControlRequest          request_id and a request: the CLI's (`request`) or a client's
                            (`client_request`)
    ControlResponse         the answer to one, by its id
    ControlCancelRequest    the asker no longer wants the answer

    CLIRequest              what a CLI asks of its client
      CanUseTool, HookCallback, Elicitation, RequestUserDialog, ...
      UnknownRequest        a subtype this version does not know; nothing of it is lost

What a client asks of its CLI stands in `control_requests`, the answers in `control_replies`.
"""

from __future__ import annotations

from typing import Any, TypeVar, Union, cast

import msgspec
from msgspec import Raw, field

from .control_replies import Reply
from .control_requests import McpMessage, Request, UntypedRequest
from .hooks import HookInput, decode_hook_input
from .host_requests import CLIENT_REQUESTS
from .permissions import PermissionUpdate, decode_updates
from .shared import LazyMessage, McpServerProvenance
from .wire import NULL, UNREADABLE, JsonObject, Lazy, Record, always, load, members, once, tag_of

__all__ = [
    "CLIRequest",
    "CanUseTool",
    "ControlCancelRequest",
    "ControlRequest",
    "ControlResponse",
    "Elicitation",
    "HookCallback",
    "HostAuthTokenRefresh",
    "InboundRequest",
    "MatchedAskRule",
    "OauthTokenRefresh",
    "RemoteControlWorkSecret",
    "Request",
    "RequestUserDialog",
    "ResponseBody",
    "UiCopy",
    "UiPromptFill",
    "UiPromptPaint",
    "UiPromptRead",
    "UiPromptSuggest",
    "UiReadSelection",
    "UiRequest",
    "UnknownRequest",
    "decode_client_request",
    "decode_inbound",
    "decode_pending_requests",
    "encode_request",
    "read_reply",
]

ReplyT = TypeVar("ReplyT", bound=Reply)


class CLIRequest(Lazy, tag_field="subtype"):
    """What a CLI asks of its client: `raw` is its JSON, `extra` the members not declared here."""

    @property
    def subtype(self) -> str:
        """The request's `subtype` on the wire."""
        return str(self.__struct_config__.tag)


class MatchedAskRule(Record):
    """The rule that made the CLI ask."""

    source: str = always("")
    tool_name: str = always("")
    rule_content: str | None = None


class CanUseTool(CLIRequest, tag="can_use_tool"):
    """May this tool run? Unanswered, the tool waits for ever."""

    tool_name: str = always("")
    mcp_server: McpServerProvenance | None = None
    input: JsonObject = always({})
    permission_suggestions_raw: Raw = field(default=NULL, name="permission_suggestions")
    blocked_path: str | None = None
    decision_reason: str | None = None
    decision_reason_type: str | None = None
    classifier_approvable: bool | None = None
    suppress_always_allow_rule: bool | None = None
    default_to_no: bool | None = None
    matched_ask_rule: MatchedAskRule | None = None
    title: str | None = None
    display_name: str | None = None
    tool_use_id: str = always("")
    agent_id: str | None = None
    description: str | None = None
    requires_user_interaction: bool | None = None
    server_policy_ask_only: bool | None = None
    decision_reason_code: str | None = None
    decision_reason_hook_event: str | None = None
    decision_reason_hook_source: str | None = None
    plugin: Any = None
    server_prompt: Any = None
    computer_folder: JsonObject | None = None

    @once
    def permission_suggestions(self) -> list[PermissionUpdate]:
        """Updates under which the CLI would not ask again. Some write settings files."""
        return decode_updates(self.permission_suggestions_raw)


class HookCallback(CLIRequest, tag="hook_callback"):
    """Call the hook that was registered under `callback_id`."""

    callback_id: str = always("")
    input_raw: Raw = field(default=NULL, name="input")
    tool_use_id: str | None = None

    @once
    def input(self) -> HookInput:
        """What the hook is told, as the class of its event."""
        return decode_hook_input(self.input_raw)


class Elicitation(CLIRequest, tag="elicitation"):
    """An MCP server asks the user."""

    mcp_server_name: str = always("")
    message: str = always("")
    mode: str | None = None
    url: str | None = None
    elicitation_id: str | None = None
    requested_schema: JsonObject | None = None
    property_order: list[str] = field(default_factory=list)
    title: str | None = None
    display_name: str | None = None
    description: str | None = None


class RequestUserDialog(CLIRequest, tag="request_user_dialog"):
    """Show the user a dialog. Only for hosts which declared its kind; others stay silent."""

    dialog_kind: str = always("")
    payload: JsonObject = always({})
    tool_use_id: str | None = None


class OauthTokenRefresh(CLIRequest, tag="oauth_token_refresh"):
    """The CLI wants a fresh access token."""

    kind: str | None = None
    token_state: str | None = None
    refused_call: str | None = None


class HostAuthTokenRefresh(CLIRequest, tag="host_auth_token_refresh"):
    """The CLI wants a fresh token of the host's."""

    status: Any = None


class RemoteControlWorkSecret(CLIRequest, tag="remote_control_work_secret"):
    """The CLI wants the secret of a remote control session."""

    session_id: str = always("")


class UiRequest(CLIRequest):
    """The CLI wants something of the host's screen. Official clients leave these unanswered."""

    @property
    def data(self) -> JsonObject:
        """The whole request as plain values."""
        return members(self.raw)


class UiCopy(UiRequest, tag="ui_copy"):
    """Copy to the clipboard."""


class UiPromptFill(UiRequest, tag="ui_prompt_fill"):
    """Fill the prompt."""


class UiPromptPaint(UiRequest, tag="ui_prompt_paint"):
    """Paint the prompt."""


class UiPromptRead(UiRequest, tag="ui_prompt_read"):
    """Read the prompt."""


class UiPromptSuggest(UiRequest, tag="ui_prompt_suggest"):
    """Suggest a prompt."""


class UiReadSelection(UiRequest, tag="ui_read_selection"):
    """Read what is selected."""


class UnknownRequest(CLIRequest, tag=False):
    """A request of a subtype this version does not know."""

    kind: str = field(default="", name="subtype")

    @property
    def subtype(self) -> str:
        return self.kind

    @property
    def data(self) -> JsonObject:
        """The whole request as plain values."""
        return members(self.raw)


InboundRequest = (
    CanUseTool
    | HookCallback
    | McpMessage
    | Elicitation
    | RequestUserDialog
    | OauthTokenRefresh
    | HostAuthTokenRefresh
    | RemoteControlWorkSecret
    | UiRequest
    | UnknownRequest
)

_QUESTIONS: dict[str, type[InboundRequest]] = {
    tag_of(kind): kind
    for kind in (
        CanUseTool,
        HookCallback,
        McpMessage,
        Elicitation,
        RequestUserDialog,
        OauthTokenRefresh,
        HostAuthTokenRefresh,
        RemoteControlWorkSecret,
        UiCopy,
        UiPromptFill,
        UiPromptPaint,
        UiPromptRead,
        UiPromptSuggest,
        UiReadSelection,
    )
}


_decode_known = msgspec.json.Decoder(Union[tuple(_QUESTIONS.values())]).decode  # noqa: UP007


def decode_inbound(raw: bytes | Raw) -> InboundRequest:
    """What a CLI asks of its client."""
    try:
        request = _decode_known(raw)
    except UNREADABLE:
        # A subtype this version does not know, or a member of another type than it knows.
        subtype = load(UnknownRequest, raw).kind
        return load(_QUESTIONS.get(subtype, UnknownRequest), raw)
    # What `keep` does, without the call: every ask comes by here.
    request._text = raw  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    return request


def decode_client_request(raw: bytes | Raw) -> Request[Any] | UnknownRequest:
    """What a client asks of its CLI."""
    subtype = load(UnknownRequest, raw).kind
    return load(CLIENT_REQUESTS.get(subtype, UnknownRequest), raw)


def encode_request(request: Request[Any]) -> JsonObject:
    """A request as plain members, `subtype` included."""
    if isinstance(request, UntypedRequest):
        return {**request.fields, "subtype": request.kind}
    return cast(JsonObject, msgspec.to_builtins(request))


class ControlRequest(LazyMessage, tag="control_request"):
    """One side asks the other; exactly one `ControlResponse` is due."""

    request_id: str = always("")
    request_raw: Raw = field(default=NULL, name="request")

    @once
    def request(self) -> InboundRequest:
        """What the CLI asks of its client."""
        return decode_inbound(self.request_raw)

    @once
    def client_request(self) -> Request[Any] | UnknownRequest:
        """What the client asks of its CLI."""
        return decode_client_request(self.request_raw)


class ResponseBody(Record):
    """The inside of a control response."""

    subtype: str = always("")
    request_id: str = always("")
    response_raw: Raw = field(default=NULL, name="response")
    error: str | None = None
    error_code: str | None = None
    pending_permission_requests: list[Raw] = field(default_factory=list)
    pending_user_dialog_requests: list[Raw] = field(default_factory=list)
    pending_elicitation_requests: list[Raw] = field(default_factory=list)


class ControlResponse(LazyMessage, tag="control_response"):
    """The answer to a control request: `success` with a response, or `error` with a text."""

    body: ResponseBody = field(default_factory=ResponseBody, name="response")

    @property
    def subtype(self) -> str:
        """`success` or `error`."""
        return self.body.subtype

    @property
    def request_id(self) -> str:
        """The id of the request this answers."""
        return self.body.request_id

    @property
    def error(self) -> str | None:
        """Why the request was refused."""
        return self.body.error

    @property
    def error_code(self) -> str | None:
        """Why the request was refused, as a word; older CLIs give none."""
        return self.body.error_code

    @property
    def response_raw(self) -> Raw:
        """What was answered, as JSON."""
        return self.body.response_raw

    @once
    def response(self) -> JsonObject:
        """What was answered, as plain members."""
        return members(self.body.response_raw)

    @property
    def pending_permission_requests(self) -> list[ControlRequest]:
        """Permission requests the CLI still waits for."""
        return _decode_requests(self.body.pending_permission_requests)

    @property
    def pending_user_dialog_requests(self) -> list[ControlRequest]:
        """Dialogs the CLI still waits for."""
        return _decode_requests(self.body.pending_user_dialog_requests)

    @property
    def pending_elicitation_requests(self) -> list[ControlRequest]:
        """Elicitations the CLI still waits for."""
        return _decode_requests(self.body.pending_elicitation_requests)


class ControlCancelRequest(LazyMessage, tag="control_cancel_request"):
    """The asker withdraws a request; an answer would be ignored."""

    request_id: str = always("")


def _decode_requests(raws: list[Raw]) -> list[ControlRequest]:
    requests = [load(ControlRequest, raw) for raw in raws]
    return [request for request in requests if request.request_id]


def decode_pending_requests(response: ControlResponse) -> list[ControlRequest]:
    """Everything the CLI still waits for, as a repeated initialize reports it."""
    return [
        *response.pending_permission_requests,
        *response.pending_user_dialog_requests,
        *response.pending_elicitation_requests,
    ]


def read_reply(request: Request[ReplyT], response: ControlResponse) -> ReplyT:
    """The answer to `request`, as the type that request promises."""
    return cast(ReplyT, load(type(request).reply, response.response_raw))
