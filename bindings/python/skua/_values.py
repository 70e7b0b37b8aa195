"""What operations take and bring."""

from __future__ import annotations

import datetime
import enum
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, List, NamedTuple, Union

from skua._errors import BufferTooSmall, InvalidArgument, error_of, make_error
from skua._skua import ffi, lib

Bytes = Union[str, bytes, bytearray, memoryview]
Seconds = Union[int, float, datetime.timedelta]

_NS = 1_000_000_000
# skua_no_value() of C
NO_VALUE = {"data": ffi.NULL, "length": 2 ** (8 * ffi.sizeof("size_t")) - 1}


def library_version() -> str:
    """Of libskua.so."""
    return str(ffi.string(lib.skua_version()).decode())


class Outcome(enum.IntEnum):
    ANSWERED = lib.SKUA_ANSWERED
    NOT_DONE = lib.SKUA_NOT_DONE
    IN_DOUBT = lib.SKUA_IN_DOUBT


class Durability(enum.IntEnum):
    """How safe a write is: DEFAULT (as the node is configured), MEMORY, FLUSH, SYNC."""

    DEFAULT = lib.SKUA_DURABILITY_DEFAULT
    MEMORY = lib.SKUA_DURABILITY_MEMORY
    FLUSH = lib.SKUA_DURABILITY_FLUSH
    SYNC = lib.SKUA_DURABILITY_SYNC


class Token(NamedTuple):
    """The state that a shard had when it answered. A read with `at_least` sees at least that."""

    table_id: int
    shard: int
    epoch: int
    index: int  # type: ignore[assignment]


class Written(NamedTuple):
    """What a write brought. `number`: the counter after an add."""

    version: int
    number: int
    durability: Durability
    repeated: bool
    token: Token


class Row(NamedTuple):
    key: bytes
    value: bytes
    version: int


class Rows(List[Row]):
    """Rows in key order. `next_start`: where to go on; None if there are no more."""

    next_start: bytes | None = None


class Value:
    """A value that was read. `view` shows its bytes without a copy, for as long as the view lives; bytes(value) copies."""

    __slots__ = ("_result", "_bytes", "version", "token", "ttl")

    def __init__(self, result: Any, raw: Any, version: int, token: Token, ttl: datetime.timedelta | None) -> None:
        self._result = result
        self._bytes = raw
        self.version = version
        self.token = token
        self.ttl = ttl

    @property
    def view(self) -> memoryview:
        if self._bytes.length == 0:
            return memoryview(b"")
        # The pointer keeps the result alive, and the buffer the pointer.
        pointer = ffi.gc(ffi.cast("char*", self._bytes.data), _Keeper(self._result))
        return memoryview(ffi.buffer(pointer, self._bytes.length)).toreadonly()

    def fields(self) -> dict[str, bytes]:
        """The fields of a row, by name. ValueError: the value is not a row."""
        rest = ffi.new("skua_bytes*", self._bytes)
        field = ffi.new("skua_field*")
        found = {}
        while lib.skua_row_next(rest, field):
            found[_copied(field.name).decode(errors="surrogateescape")] = _copied(field.value)
        if rest.length != 0:
            raise ValueError(f"the value of {len(self)} bytes is not a row of fields")
        return found

    def __bytes__(self) -> bytes:
        return _copied(self._bytes)

    def __len__(self) -> int:
        return int(self._bytes.length)

    def __repr__(self) -> str:
        return f"<skua.Value of {len(self)} bytes, version {self.version}>"


class _Keeper:
    """Keeps an object for as long as a pointer lives."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def __call__(self, _pointer: Any) -> None:
        self.kept = None


def _copied(raw: Any) -> bytes:
    return bytes(ffi.buffer(ffi.cast("char*", raw.data), raw.length)) if raw.length > 0 else b""


class Arguments:
    """Python values as C sees them. What pointers point to lives as long as this object."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def bytes(self, value: Bytes) -> Any:
        if isinstance(value, str):
            value = value.encode()
        buffer = ffi.from_buffer(value)
        self._kept.append(buffer)
        return ffi.new("skua_bytes*", {"data": buffer, "length": len(buffer)})[0]

    def table(self, name: str) -> Any:
        encoded = ffi.new("char[]", c_text("the table's name", name))
        self._kept.append(encoded)
        return encoded

    def read(self, *, timeout: Seconds | None = None, with_ttl: bool = False, at_least: Token | None = None,
             fields: Iterable[Bytes] | None = None) -> Any:
        options = ffi.new("skua_read_options*", {"size": ffi.sizeof("skua_read_options"), "with_ttl": with_ttl,
                                                 "timeout_ns": nanoseconds("timeout", timeout)})
        if at_least is not None:
            options.at_least = tuple(at_least)
        if fields is not None:
            if isinstance(fields, (str, bytes, bytearray, memoryview)):
                raise InvalidArgument("fields is a list of names: put a single name in brackets", "INVALID_ARGUMENT")
            listed: list[Bytes] = [name.encode(errors="surrogateescape") if isinstance(name, str) else name for name in fields]
            if not listed:
                raise InvalidArgument("fields has no names: leave it out to read the whole value", "INVALID_ARGUMENT")
            names = self.keys(listed)
            self._kept.append(names)
            options.fields, options.field_count = names, len(listed)
        return options

    def write(self, *, if_version: int | None = None, if_absent: bool = False, if_present: bool = False,
              ttl: Seconds | None = None, keep_ttl: bool = False, durability: Durability = Durability.DEFAULT,
              timeout: Seconds | None = None) -> Any:
        return ffi.new("skua_write_options*", {
            "size": ffi.sizeof("skua_write_options"), "has_if_version": if_version is not None, "if_version": if_version or 0,
            "if_absent": if_absent, "if_present": if_present, "ttl_ns": nanoseconds("ttl", ttl), "keep_ttl": keep_ttl,
            "durability": int(durability), "timeout_ns": nanoseconds("timeout", timeout)})

    def keys(self, keys: list[Bytes]) -> Any:
        return ffi.new("skua_bytes[]", [self.bytes(key) for key in keys])

    def fields(self, fields: Mapping[str, Bytes | None]) -> Any:
        return ffi.new("skua_field[]", [{"name": self.bytes(name.encode(errors="surrogateescape")),
                                         "value": NO_VALUE if value is None else self.bytes(value)}
                                        for name, value in fields.items()])

    def range(self, start: Bytes, end: Bytes, limit: int) -> Any:
        return ffi.new("skua_scan_range*", {"size": ffi.sizeof("skua_scan_range"), "limit": limit, "start": self.bytes(start),
                                            "end": self.bytes(end)})


def nanoseconds(name: str, time: Seconds | None) -> int:
    """What C takes: 0 stands for None. So a time that is 0 is refused, and one above 0 is rounded up."""
    if time is None:
        return 0
    rounded = whole_nanoseconds(time)
    if rounded <= 0:
        raise ValueError(f"{name} must be above 0, or None: {time!r}")
    return rounded


def whole_nanoseconds(time: Seconds) -> int:
    if isinstance(time, datetime.timedelta):
        return (time // datetime.timedelta(microseconds=1)) * 1000
    return math.ceil(time * _NS)


def c_text(name: str, text: str) -> bytes:
    """For C, where a zero ends a text: what follows the zero would be lost."""
    if "\0" in text:
        raise ValueError(f"{name} must not have a zero in it: {text!r}")
    return text.encode()


class Batch:
    """Writes to keys of one shard: all are applied, or none. Options are those of the single operations.
    Threads: one at a time, also while a client runs the batch."""

    def __init__(self) -> None:
        self.handle = ffi.gc(lib.skua_batch_create(), lib.skua_batch_destroy)

    def put(self, key: Bytes, value: Bytes, **options: Any) -> Batch:
        a = Arguments()
        lib.skua_batch_put(self.handle, a.bytes(key), a.bytes(value), a.write(**options))
        return self

    def remove(self, key: Bytes, **options: Any) -> Batch:
        a = Arguments()
        lib.skua_batch_remove(self.handle, a.bytes(key), a.write(**options))
        return self

    def add(self, key: Bytes, delta: int, **options: Any) -> Batch:
        a = Arguments()
        lib.skua_batch_add(self.handle, a.bytes(key), delta, a.write(**options))
        return self

    def append(self, key: Bytes, value: Bytes, **options: Any) -> Batch:
        a = Arguments()
        lib.skua_batch_append(self.handle, a.bytes(key), a.bytes(value), a.write(**options))
        return self

    def expire(self, key: Bytes, ttl: Seconds | None, **options: Any) -> Batch:
        a = Arguments()
        lib.skua_batch_expire(self.handle, a.bytes(key), nanoseconds("ttl", ttl), a.write(**options))
        return self


# What results of skua.h are in Python. `result` owns itself (ffi.gc). Each raises what failed.

def _token(raw: Any) -> Token:
    return Token(raw.table_id, raw.shard, raw.epoch, raw.index)


def _check(result: Any) -> None:
    error = error_of(result)
    if error is not None:
        raise error


def _entries(result: Any) -> Iterator[Any]:
    entry = ffi.new("skua_entry*", {"size": ffi.sizeof("skua_entry")})
    for position in range(lib.skua_result_entry_count(result)):
        lib.skua_result_entry(result, position, entry)
        yield entry


def value_of(result: Any) -> Value | None:
    if result != ffi.NULL and lib.skua_result_code(result) == lib.SKUA_NOT_FOUND:
        return None
    _check(result)
    ttl_ms = lib.skua_result_ttl_ms(result)
    return Value(result, lib.skua_result_value(result), lib.skua_result_version(result), _token(lib.skua_result_token(result)),
                 datetime.timedelta(milliseconds=ttl_ms) if ttl_ms >= 0 else None)


def written_of(result: Any) -> Written:
    _check(result)
    return Written(lib.skua_result_version(result), lib.skua_result_number(result),
                   Durability(lib.skua_result_durability(result)), lib.skua_result_repeated(result),
                   _token(lib.skua_result_token(result)))


def values_of(result: Any) -> list[Value | None]:
    _check(result)
    values: list[Value | None] = []
    for entry in _entries(result):
        raw = _found(entry)
        values.append(None if raw is None else Value(result, raw, entry.version, _token(entry.token), None))
    return values


# Results of callbacks end with them. These need the result for longer: values show its memory.
KEEPING = frozenset({value_of, values_of})


class Into:
    """Puts the values of a result into buffers, in place of value_of() and values_of(). Copies all values or none. To be
    called once."""

    def __init__(self, buffers: Iterable[Any]) -> None:
        # Each keeps its size for as long as this object has it. A buffer that is read-only or has gaps is refused.
        self._buffers = [ffi.from_buffer(buffer, require_writable=True) for buffer in buffers]

    def check_count(self, wanted: int) -> None:
        if len(self._buffers) != wanted:
            raise ValueError(f"{wanted} keys need as many buffers, and there are {len(self._buffers)}")

    def of_one(self, result: Any) -> int | None:
        try:
            if result != ffi.NULL and lib.skua_result_code(result) == lib.SKUA_NOT_FOUND:
                return None
            _check(result)
            return self._copy([lib.skua_result_value(result)])[0]
        finally:
            self._release()

    def of_many(self, result: Any) -> list[int | None]:
        try:
            _check(result)
            return self._copy([_found(entry) for entry in _entries(result)])
        finally:
            self._release()

    def _copy(self, values: list[Any]) -> list[int | None]:
        for position, (value, buffer) in enumerate(zip(values, self._buffers)):
            if value is not None and value.length > len(buffer):
                raise BufferTooSmall(position, len(buffer), value.length)
        for value, buffer in zip(values, self._buffers):
            if value is not None:
                ffi.memmove(buffer, value.data, value.length)
        return [None if value is None else value.length for value in values]

    def _release(self) -> None:
        # Not when the last reference goes: an exception's traceback has one, and its handler may want to make a bytearray larger.
        for buffer in self._buffers:
            ffi.release(buffer)


def _found(entry: Any) -> Any:
    """The entry's skua_bytes; None if there is no such key."""
    if entry.code not in (lib.SKUA_OK, lib.SKUA_NOT_FOUND):
        raise make_error(entry.code, ffi.string(entry.text).decode(errors="replace"))
    return ffi.new("skua_bytes*", entry.value)[0] if entry.code == lib.SKUA_OK else None


def rows_of(result: Any) -> Rows:
    _check(result)
    rows = Rows(Row(_copied(entry.key), _copied(entry.value), entry.version) for entry in _entries(result))
    if lib.skua_result_has_more(result):
        rows.next_start = _copied(lib.skua_result_next_start(result))
    return rows


def numbers_of(result: Any) -> list[int]:
    """Of a batch: the counters after adds, 0 for other operations."""
    _check(result)
    return [entry.number for entry in _entries(result)]


# What makes the results of writes.
WRITES = frozenset({written_of, numbers_of})
