"""JSON in and out, forgiving in and exact out.

Every typed value that comes from the wire is a `Record`: a struct in which each field has a
default, so that an older CLI which does not send it, or a newer one which sends another type,
never makes the whole value unreadable.

    load(cls, raw)      raw JSON -> cls; a field of an unexpected type keeps its default
    encode(value)       value -> one line, newline included

A `Kept` record also remembers the JSON it was read from: `raw` is that text, `extra` the members
this version does not declare. A message that was read encodes to that text, with what has been
changed since in its place.
"""

from __future__ import annotations

import copy
import functools
import json
import math
from collections.abc import Callable
from itertools import islice
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Self,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    overload,
)

import msgspec
from msgspec import UNSET, Raw, Struct

__all__ = [
    "NULL",
    "UNREADABLE",
    "JsonObject",
    "Kept",
    "Lazy",
    "Record",
    "Unread",
    "always",
    "as_object",
    "convert",
    "encode",
    "encode_json",
    "keep",
    "load",
    "members",
    "once",
    "parse",
    "parse_strictly",
    "tag_of",
]

JsonObject = dict[str, Any]
NULL = Raw(b"null")

R = TypeVar("R", bound="Record")
P = TypeVar("P")
K = TypeVar("K", bound="Kept")
T = TypeVar("T")

MOST_ITEMS: Final = 10_000
"""Items that are looked at one by one, where a list does not fit; the text keeps the others."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading JSON as some type may raise."""
_MISFIT = (msgspec.ValidationError, UnicodeError, OverflowError)
"""What reading a value as some type may raise: half a surrogate pair cannot even be refused."""

_BLANKS: dict[Any, Callable[[], Any]] = {kind: kind for kind in (str, int, float, bool, list, dict)}

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_encoder = msgspec.json.Encoder()


@functools.cache
def fields_of(kind: type[Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a struct. msgspec evaluates the annotations anew at each call."""
    return msgspec.structs.fields(kind)


class Record(Struct, kw_only=True, omit_defaults=True):
    """A typed JSON object of the CLI's. Fields it does not declare are ignored, not refused."""


class Kept(Record):
    """A record which remembers its JSON text."""

    _text: ClassVar[bytes | Raw] = b""

    @property
    def raw(self) -> bytes:
        """The JSON text this was read from; for a value built here, the text it encodes to."""
        return bytes(self._text) or encode_json(self)

    @property
    def was_read(self) -> bool:
        """Whether it came from the wire, rather than having been built here."""
        return bool(self._text)

    @property
    def extra(self) -> JsonObject:
        """The members of the JSON object which this class does not declare."""
        known = {field.encode_name for field in fields_of(type(self))}
        known.add(self.__struct_config__.tag_field or "")
        return {name: value for name, value in members(self.raw).items() if name not in known}


class Lazy(Kept, dict=True):
    """A kept record with parts that are read when somebody looks at them.

    The text and the parts live in the instance dictionary, not in fields: no member of a JSON
    object can set them and they are never encoded.
    """


class once(Generic[P]):
    """A part of a struct with a dictionary, read when somebody looks at it and kept from then on.

    Not `functools.cached_property`, which takes a lock in Python 3.11: every line comes by here.
    """

    def __init__(self, read: Callable[[Any], P]) -> None:
        self._read = read
        self._name = read.__name__
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, record: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, record: Struct, owner: Any) -> P: ...
    def __get__(self, record: Struct | None, owner: Any) -> Self | P:
        if record is None:
            return self
        # A struct with `dict=True` has one that can be written, which the checker does not know.
        parts = cast("JsonObject", record.__dict__)
        # Found there from now on: an instance's own comes before a descriptor that sets nothing.
        part = parts[self._name] = self._read(record)
        return part


class Unread(JsonObject):
    """An object of a type this version does not know: its members, which encode as they came."""

    @property
    def type(self) -> str:
        """The object's `type` on the wire."""
        kind = self.get("type")
        return kind if isinstance(kind, str) else ""

    @property
    def data(self) -> JsonObject:
        """The members as a plain dictionary."""
        return dict(self)


def keep(value: K, raw: bytes | Raw) -> K:
    """Let `value` remember the text it came from."""
    value._text = raw  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    return value


def always(default: T, *, name: str | None = None) -> T:
    """A field's default which is written out even where it was not changed.

    Defaults are omitted when encoding; these are the members the CLI never leaves out.
    """
    return msgspec.field(default_factory=lambda: copy.deepcopy(default), name=name)


def tag_of(kind: type[Struct]) -> str:
    """The value of the member by which `kind` is told from its siblings."""
    return str(kind.__struct_config__.tag or "")


def load(kind: type[R], raw: bytes | Raw) -> R:
    """Read one JSON object as `kind`; what does not fit is left at its default."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        value = decoder.decode(raw)
    except UNREADABLE:
        value = convert(kind, parse(bytes(raw)))
    if isinstance(value, Kept):
        keep(value, raw)
    return cast(R, value)


def parse(raw: bytes | Raw) -> Any:
    """Any JSON text as plain values; None where it is not JSON.

    The stdlib parser takes what msgspec refuses and a JavaScript writer may send: lone surrogates,
    numbers out of range, invalid UTF-8 (replaced).
    """
    try:
        return parse_strictly(raw)
    except (ValueError, RecursionError):
        return None


def parse_strictly(raw: bytes | Raw) -> Any:
    """As `parse`; raises ValueError where it is not JSON, RecursionError where it is too deep."""
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        return _any_json.decode(bytes(raw).decode("utf-8", "replace"))


def members(raw: bytes | Raw) -> JsonObject:
    """The members of a JSON object as plain values; none where it is not one."""
    return as_object(parse(raw))


def as_object(value: Any) -> JsonObject:
    """A parsed JSON value's members; none where it is no object."""
    return cast(JsonObject, value) if isinstance(value, dict) else {}


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # Python refuses to read more than 4300 digits
        return float(digits)


_any_json = json.JSONDecoder(parse_int=_integer)


def convert(kind: type[R], value: Any) -> R:
    """A parsed JSON value as `kind`, field by field."""
    fitting: JsonObject = {}
    given = as_object(value)
    for field in fields_of(kind):
        if field.encode_name in given:
            try:
                fitting[field.name] = _coerce(given[field.encode_name], field.type)
                continue
            except (*_MISFIT, RecursionError):
                pass
        if field.required:
            fitting[field.name] = _blank(field.type)
    return kind(**fitting)


def _blank(kind: Any) -> Any:
    """What stands in for a required member that is missing."""
    origin: Any = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return _blank(get_args(kind)[0])
    return _BLANKS[origin]() if origin in _BLANKS else None


def _coerce(value: Any, kind: Any) -> Any:
    origin: Any = get_origin(kind)
    if kind is Raw:
        return Raw(encode_json(value))
    if _is_record(kind):
        return _coerce_record(value, kind)
    if origin in (list, tuple) and isinstance(value, list):
        items = _coerce_each(cast(list[Any], value), get_args(kind)[0])
        return items if origin is list else tuple(items)
    if origin is dict and isinstance(value, dict):
        item = get_args(kind)[1]
        named = cast(JsonObject, value)
        return {name: _coerce(each, item) for name, each in islice(named.items(), MOST_ITEMS)}
    if origin in (Union, UnionType):
        return _coerce_union(value, get_args(kind))
    if origin is Literal and isinstance(value, str):
        return value  # the wire's enumerations are open, whatever we would write ourselves
    if kind is float and isinstance(value, int | float):
        return _finite(value)
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    return msgspec.convert(value, kind)


def _finite(value: float) -> float:
    number = float(value)
    if not math.isfinite(number) or isinstance(value, bool):
        raise msgspec.ValidationError("no finite number")
    return number


def _is_record(kind: Any) -> TypeGuard[type[Record]]:
    return isinstance(kind, type) and issubclass(kind, Record)


def _coerce_each(values: list[Any], kind: Any) -> list[Any]:
    fitting: list[Any] = []
    for value in values[:MOST_ITEMS]:
        try:
            fitting.append(_coerce(value, kind))
        except _MISFIT:
            continue
    return fitting


def _coerce_record(value: Any, kind: type[R]) -> R:
    if not isinstance(value, dict):
        raise msgspec.ValidationError("not an object")
    return convert(kind, value)


def _coerce_union(value: Any, kinds: tuple[Any, ...]) -> Any:
    if value is None and type(None) in kinds:
        return None
    for kind in kinds:
        if kind in (type(None), msgspec.UnsetType):
            continue
        if _is_other_variant(value, kind):
            continue
        try:
            return _coerce(value, kind)
        except _MISFIT:
            continue
    raise msgspec.ValidationError("fits no member of the union")


def _is_other_variant(value: Any, kind: Any) -> bool:
    """Whether `kind` is a tagged record and `value` carries another tag."""
    if not (_is_record(kind) and isinstance(value, dict)):
        return False
    config = kind.__struct_config__
    given = cast(JsonObject, value)
    return config.tag_field is not None and given.get(config.tag_field) != config.tag


def encode_json(value: Any) -> bytes:
    """`value` as JSON. Strings with lone surrogates, which UTF-8 cannot carry, are escaped."""
    if isinstance(value, Kept) and not isinstance(value, Lazy) and value.was_read:
        value = _as_it_stands(value)
        if isinstance(value, bytes):
            return value
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(_plain(value)).encode()


def _as_it_stands(value: Kept) -> bytes | JsonObject:
    """The text a message was read from, or its members where something has been changed since."""
    given = members(value.raw)
    # Without members it was nested too deeply to be read.
    now = _with_changes(given, value, load(type(value), value.raw)) if given else given
    return value.raw if now == given else now


def _with_changes(given: Any, now: Any, read: Any) -> Any:
    """`given`, as which `read` was read, with that in which `now` differs from `read`."""
    if isinstance(now, Struct) and type(now) is type(read) and isinstance(given, dict):
        return _changed_members(cast(JsonObject, given), now, read)
    texts, items, before = _items(given), _items(now), _items(read)
    if items and len(items) == len(before) == len(texts):
        return [_with_changes(*each) for each in zip(texts, items, before, strict=True)]
    return given if _plain(now) == _plain(read) else _plain(now)


def _changed_members(given: JsonObject, now: Struct, read: Any) -> JsonObject:
    changed = dict(given)
    for field in fields_of(type(now)):
        if field.name == "_text":
            continue
        part = _part_read(now, field)
        item, before = getattr(now, part), getattr(read, part)
        if _plain(item) == _plain(before):
            continue
        if item is UNSET or _is_default(field, item):
            changed.pop(field.encode_name, None)
        else:
            old = changed.get(field.encode_name)
            changed[field.encode_name] = _with_changes(old, item, before)
    return changed


def _items(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _part_read(value: Struct, field: msgspec.structs.FieldInfo) -> str:
    """The attribute a member is in by now: what was read of it on demand, or the field itself."""
    name = field.name.removesuffix("_raw")
    parts: JsonObject = getattr(value, "__dict__", {})
    return name if name in parts or f"_{name}" in parts else field.name


def _plain(value: Any) -> Any:
    """`value` as what the stdlib encoder takes."""
    if isinstance(value, Raw):
        return _plain(parse(value))
    if isinstance(value, Struct):
        return _plain_struct(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in cast(JsonObject, value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast(list[Any], value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _plain_struct(value: Struct) -> JsonObject:
    config = value.__struct_config__
    plain: JsonObject = {}
    if config.tag_field is not None:
        plain[config.tag_field] = config.tag
    for field in fields_of(type(value)):
        item = getattr(value, _part_read(value, field))
        if item is UNSET or (config.omit_defaults and _is_default(field, item)):
            continue
        plain[field.encode_name] = _plain(item)
    return plain


def _is_default(field: msgspec.structs.FieldInfo, item: Any) -> bool:
    if field.default is not msgspec.NODEFAULT:
        return item is field.default
    return field.default_factory is type(item) and not item


def encode(value: Any) -> bytes:
    """`value` as one line for the wire. A JSON text never contains a bare newline."""
    return encode_json(value) + b"\n"
