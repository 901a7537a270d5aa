"""A tool as a value: a function, the schema made from its signature, and what it returns.

The schema is msgspec's for the annotations; descriptions are the text in `Annotated[int, "text"]`
or `msgspec.Meta(description=...)`, and the first paragraph of the docstring.
"""

from __future__ import annotations

import inspect
import logging
import re
import typing
from base64 import b64encode
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Generic, ParamSpec, TypeVar, cast, overload

import msgspec
from msgspec import Meta, Struct

from pilothouse.protocol.wire import JsonObject, encode_json

__all__ = ["NAME", "Image", "Tool", "ToolAnnotations", "ToolContext", "ToolResult", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MISFIT = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<where>.*)`)?", re.DOTALL)

_log = logging.getLogger("pilothouse.tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnnotations:
    """Hints about what a tool does; None leaves a hint out."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    def to_wire(self) -> JsonObject:
        hints = {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: hint for name, hint in hints.items() if hint is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """About the call being served: a parameter annotated with this class receives it."""

    server: str
    tool: str
    tool_use_id: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a tool's result."""

    data: bytes
    mime_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A result in full. A dict in `content` is an MCP content block, passed as it is."""

    content: Sequence[str | Image | JsonObject] = ()
    structured: JsonObject | None = None
    is_error: bool = False
    meta: JsonObject | None = None

    def to_wire(self) -> JsonObject:
        wire: JsonObject = {"content": [_content_block(each) for each in self.content]}
        if self.structured is not None:
            wire["structuredContent"] = self.structured
        if self.is_error:
            wire["isError"] = True
        if self.meta is not None:
            wire["_meta"] = self.meta
        return wire


def _content_block(item: str | Image | JsonObject) -> JsonObject:
    match item:
        case str():
            return {"type": "text", "text": item}
        case Image(data, mime_type):
            return {"type": "image", "data": b64encode(data).decode(), "mimeType": mime_type}
        case _:
            return item


def _failed(text: str) -> ToolResult:
    return ToolResult([text], is_error=True)


def _as_result(value: Any) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult(["Done."])
    if isinstance(value, Image):
        return ToolResult([value])
    if isinstance(value, list | tuple) and any(isinstance(each, Image) for each in _items(value)):
        return ToolResult([_as_content(each) for each in _items(value)])
    plain = _plain(value)
    structured = cast(JsonObject, plain) if isinstance(plain, dict) else None
    return ToolResult([_as_text(plain)], structured)


def _items(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value)


def _as_content(value: Any) -> str | Image:
    return value if isinstance(value, Image) else _as_text(_plain(value))


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True)


def _as_text(plain: Any) -> str:
    return plain if isinstance(plain, str) else encode_json(plain).decode()


# The tool


@dataclass(frozen=True, slots=True)
class Tool(Generic[P, R]):
    """An async function the model may call; still callable as the function it was."""

    function: Callable[P, Coroutine[Any, Any, R]]
    name: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None
    title: str | None
    annotations: ToolAnnotations | None
    meta: JsonObject | None
    _arguments: type[Struct]
    _context_parameter: str | None
    _returns: Any

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self.function(*args, **kwargs)

    def definition(self) -> JsonObject:
        """The tool as `tools/list` shows it."""
        wire: JsonObject = {"name": self.name, "inputSchema": self.input_schema}
        if self.description:
            wire["description"] = self.description
        if self.title is not None:
            wire["title"] = self.title
        if self.output_schema is not None:
            wire["outputSchema"] = self.output_schema
        if self.annotations is not None:
            wire["annotations"] = self.annotations.to_wire()
        if self.meta is not None:
            wire["_meta"] = self.meta
        return wire

    async def run(self, arguments: JsonObject, context: ToolContext) -> JsonObject:
        """Call the function with what the model sent. Failures are results it can read."""
        # The boundary to the user's code: whatever it raises, the model gets an answer.
        try:
            result = await self._attempt(arguments, context)
            return _plain(result.to_wire())
        except Exception as error:  # noqa: BLE001
            _log.info("tool %s failed", self.name, exc_info=error)
            return _failed(f"{type(error).__name__}: {error}").to_wire()

    async def _attempt(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        try:
            ready = msgspec.convert(arguments, self._arguments)
        except msgspec.ValidationError as error:
            return _failed(f"{self.name} was not called: {_explain(error)}")
        values = {name: getattr(ready, name) for name in ready.__struct_fields__}
        if self._context_parameter is not None:
            values[self._context_parameter] = context
        function = cast("Callable[..., Coroutine[Any, Any, R]]", self.function)
        result = _as_result(await function(**values))
        self._check(result)
        return result

    def _check(self, result: ToolResult) -> None:
        """The CLI refuses a result that breaks the schema it was shown; say it more clearly."""
        if self.output_schema is None or result.is_error:
            return
        try:
            msgspec.convert(result.structured, self._returns, strict=False, str_keys=True)
        except msgspec.ValidationError as error:
            raise TypeError(f"{self.name} returned what it does not declare: {error}") from error


@overload
def tool(function: Callable[P, Coroutine[Any, Any, R]], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: ToolAnnotations | None = None,
    meta: JsonObject | None = None,
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Tool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: ToolAnnotations | None = None,
    meta: JsonObject | None = None,
) -> Any:
    """Make a tool of an async function: name, schema and text come from its signature."""

    def decorate(function: Callable[..., Any]) -> Tool[..., Any]:
        named = _tool_name(name or getattr(function, "__name__", ""))
        arguments, context_parameter, returns = _read_signature(function, named)
        return Tool(
            function=function,
            name=named,
            description=_first_paragraph(function) if description is None else description,
            input_schema=_input_schema(arguments, named),
            output_schema=_output_schema(returns),
            title=title,
            annotations=annotations,
            meta=meta,
            _arguments=arguments,
            _context_parameter=context_parameter,
            _returns=returns,
        )

    return decorate if function is None else decorate(function)


def _tool_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name for a tool: 1 to 64 letters, digits, underscores or hyphens"
        )
    return name


def _first_paragraph(function: Callable[..., Any]) -> str:
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


# Signatures and schemas


def _read_signature(
    function: Callable[..., Any], name: str
) -> tuple[type[Struct], str | None, Any]:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"tool {name}: make it async; a plain function would block the session")
    hints = _hints(function, name)
    fields: list[tuple[str, Any, Any]] = []
    context_parameter: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        _check_parameter(parameter, hints, name)
        if hints[parameter.name] is ToolContext:
            context_parameter = parameter.name
        else:
            fields.append(_argument(parameter, hints[parameter.name]))
    arguments = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
    return arguments, context_parameter, hints.get("return", Any)


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"tool {name}: {error}; annotations are looked up at module level"
        ) from error


def _check_parameter(parameter: inspect.Parameter, hints: dict[str, Any], name: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(f"tool {name}: {parameter} has no schema; name every argument")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TypeError(f"tool {name}: arguments go by name; {parameter.name} is positional only")
    if parameter.name not in hints:
        raise TypeError(f"tool {name}: annotate {parameter.name} with its type")


def _argument(parameter: inspect.Parameter, hint: Any) -> tuple[str, Any, Any]:
    kind = _described(hint)
    default: Any = parameter.default
    if default is parameter.empty:
        return parameter.name, kind, msgspec.NODEFAULT
    if default is None or isinstance(default, str | int | float | Enum):
        return parameter.name, kind, default
    # Shared by all calls, as Python's own defaults are; msgspec refuses mutable ones otherwise.
    return parameter.name, kind, msgspec.field(default_factory=lambda: default)


def _described(hint: Any) -> Any:
    """`Annotated[int, "text"]` as the type msgspec takes a description from."""
    texts = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, str)]
    return Annotated[hint, Meta(description=" ".join(texts))] if texts else hint


def _schema(kind: Any) -> JsonObject:
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    named = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if named and not _refers_to(definitions, named):
        schema = {**definitions.pop(named), **{k: v for k, v in schema.items() if k != "$ref"}}
    elif named:
        schema = {**definitions[named], **{k: v for k, v in schema.items() if k != "$ref"}}
    return {**schema, "$defs": definitions} if definitions else schema


def _refers_to(definitions: Mapping[str, Any], name: str) -> bool:
    return encode_json(f"#/$defs/{name}") in encode_json(definitions)


def _input_schema(arguments: type[Struct], name: str) -> JsonObject:
    try:
        schema = _schema(arguments)
    except TypeError as error:
        raise TypeError(f"tool {name}: {str(error).splitlines()[-1]}") from error
    del schema["title"]
    return schema


def _output_schema(returns: Any) -> JsonObject | None:
    if returns in (Any, ToolResult, Image):
        return None
    try:
        schema = _schema(returns)
    except TypeError:
        return None
    return schema if schema.get("type") == "object" else None


def _explain(error: msgspec.ValidationError) -> str:
    found = _MISFIT.fullmatch(str(error))
    what, where = (found["what"], found["where"]) if found else (str(error), None)
    if where:
        return f"argument `{where}`: {what[:1].lower()}{what[1:]}"
    what = what.replace("Object missing required field", "missing argument")
    return what.replace("Object contains unknown field", "there is no argument")
