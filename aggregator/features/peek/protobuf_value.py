"""Decodes Protobuf by the schemas of a registry: which message a value is, and its fields. Pure.

In Confluent's wire format the schema is a file, and numbers before the payload choose a message of
it: which one from the top, then which one in that.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from aggregator.features.peek.proto_text import descriptor_of

MAIN = "the-schema.proto"
TIMESTAMP = "google.protobuf.Timestamp"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_DEEP = 20
Convert = Callable[[Any], Any]


class ProtoFile(NamedTuple):
    """A schema as registered, text or a descriptor in base64; and what it imports, by name."""

    text: str
    imported: tuple[tuple[str, str], ...] = ()


def split(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Which message is chosen, and its bytes; ValueError when that is not how it begins."""
    count, at = _varint(payload, 0)
    if count == 0:
        # Short for the first message.
        return (0,), payload[at:]
    if not 0 < count <= MOST_DEEP:
        raise ValueError("is not what its schema says: it chooses no message")
    chosen = []
    for _ in range(count):
        index, at = _varint(payload, at)
        chosen.append(index)
    return tuple(chosen), payload[at:]


def chosen_by(file: ProtoFile, payload: bytes) -> Any:
    """The class that the beginning of a payload chooses; ValueError if there is none."""
    return _class_at(file, split(payload)[0])


def parsed(payload: bytes, file: ProtoFile) -> Any:
    """The message that a framed value's payload is; ValueError with the reason if it is none."""
    chosen, content = split(payload)
    return message(content, _class_at(file, chosen))


def message(content: bytes, kind: Any) -> Any:
    """A message of this class; ValueError with the reason when the bytes are none."""
    try:
        found = kind.FromString(content)
    except DecodeError as error:
        raise ValueError("is not what its schema says: it cannot be read as Protobuf") from error
    # Nearly any bytes are a message of unknown fields.
    # By the class here and below: a field may have the name of a method.
    if content and len(UnknownFieldSet(found)) and not kind.ListFields(found):
        raise ValueError("is not what its schema says: it has none of its fields")
    return found


@lru_cache(maxsize=512)
def class_of(file: ProtoFile, name: str = "") -> Any:
    """The class of the message of this full name, else of the first; ValueError for none."""
    pool, main = _pool_of(file)
    if not name:
        return _class_at(file, (0,))
    try:
        return GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError as error:
        raise ValueError(f"no message {name} in {', '.join(main.message_types_by_name)}") from error


@lru_cache(maxsize=512)
def _class_at(file: ProtoFile, chosen: tuple[int, ...]) -> Any:
    """As Java counts, without what a map makes of itself; else as Python and Go do, with that."""
    _, main = _pool_of(file)
    top = list(main.message_types_by_name.values())
    found = _counted(top, chosen, with_maps=False) or _counted(top, chosen, with_maps=True)
    if found is None:
        raise ValueError(f"is message {list(chosen)} of its schema, which has no such message")
    return GetMessageClass(found)


def _counted(level: Sequence[Any], chosen: tuple[int, ...], *, with_maps: bool) -> Any:
    found = None
    for index in chosen:
        if not 0 <= index < len(level):
            return None
        found = level[index]
        level = [it for it in found.nested_types if with_maps or not _is_entry(it)]
    return None if found is None or _is_entry(found) else found


def _is_entry(kind: Any) -> bool:
    return bool(kind.GetOptions().map_entry)


@lru_cache(maxsize=512)
def _pool_of(file: ProtoFile) -> tuple[Any, Any]:
    """A pool with the file and what it imports, and the file in it."""
    files = {name: _descriptor(name, text) for name, text in file.imported}
    main = _descriptor(MAIN, file.text)
    files[main.name] = main
    pool = DescriptorPool()
    try:
        for one in _in_order(main, files, {}):
            pool.Add(one)
        return pool, pool.FindFileByName(main.name)
    except (TypeError, KeyError) as error:
        raise ValueError(f"its schema cannot be used: {str(error).strip()}") from error


def _in_order(file: Any, files: Mapping[str, Any], done: dict[str, bool]) -> Iterator[Any]:
    """The file behind what it imports. What is not to be had is left out: it may not be used."""
    done[file.name] = True
    kept = []
    for at, name in enumerate(file.dependency):
        other = files.get(name) or _well_known(name)
        if other is None:
            continue
        kept.append((name, at in file.public_dependency))
        if name not in done:
            yield from _in_order(other, files, done)
    own = descriptor_pb2.FileDescriptorProto()
    own.CopyFrom(file)
    del own.dependency[:], own.public_dependency[:], own.weak_dependency[:]
    own.dependency.extend(name for name, _ in kept)
    own.public_dependency.extend(at for at, (_, is_public) in enumerate(kept) if is_public)
    yield own


def _well_known(name: str) -> Any:
    """What comes with Protobuf itself."""
    if not name.startswith("google/protobuf/"):
        return None
    try:
        known = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR
    except ImportError:
        return None
    return descriptor_pb2.FileDescriptorProto.FromString(known.serialized_pb)


def _descriptor(name: str, text: str) -> Any:
    """Some clients register the descriptor in base64; a text of Protobuf never is that."""
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return descriptor_of(name, text)
    found.name = name if name != MAIN else found.name or MAIN
    return found


def plain(found: Any) -> dict[str, Any]:
    """A message as Python: enums by name, a field that was not set and says so as None."""
    said: dict[str, Any] = {}
    kind = type(found)
    for name, may_lack, convert in _readers(kind.DESCRIPTOR):
        if may_lack and not kind.HasField(found, name):
            said[name] = None
        else:
            value = getattr(found, name)
            said[name] = value if convert is None else convert(value)
    return said


@lru_cache(maxsize=512)
def _readers(kind: Any) -> tuple[tuple[str, bool, Convert | None], ...]:
    """Of each field its name, whether it may be lacking, and what makes Python of its value."""
    return tuple((field.name, field.has_presence, _reader(field)) for field in kind.fields)


def _reader(field: Any) -> Convert | None:
    if is_map(field):
        of = _reader_of_one(field.message_type.fields_by_name["value"]) or _same
        # Read by key: the values of a map are messages that belong to it.
        return lambda found: {key: of(found[key]) for key in found}
    if not field.is_repeated:
        return _reader_of_one(field)
    one = _reader_of_one(field)
    return list if one is None else lambda found: [one(it) for it in found]


def _reader_of_one(field: Any) -> Convert | None:
    if field.message_type is not None:
        return _moment if field.message_type.full_name == TIMESTAMP else plain
    if field.enum_type is None:
        return None
    # Of several names of one number the first.
    names = {it.number: it.name for it in reversed(list(field.enum_type.values))}
    return lambda number: names.get(number) or str(number)


def _same(value: Any) -> Any:
    return value


def is_map(field: Any) -> bool:
    """Whether a field is a map."""
    return field.message_type is not None and _is_entry(field.message_type)


def _moment(stamp: Any) -> datetime:
    try:
        return EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    except OverflowError as error:
        raise ValueError(f"holds a time that is none: {stamp.seconds} s") from error


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number that is written zigzag in groups of seven bits, and where it ends."""
    number = shift = 0
    while at < len(content) and shift < 35:
        byte = content[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("is not what its schema says: it chooses no message")
