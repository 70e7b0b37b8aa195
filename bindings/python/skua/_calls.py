"""The operations, declared once for both kinds of clients.

A client's `_run(name, convert, arguments, *words)` calls skua_NAME or skua_async_NAME with the words; `convert` makes a Python
value of the result. `arguments` owns the memory that the words point to. What _run() returns is what an operation returns:
the value, or an awaitable of the value.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from skua._errors import Cancelled, check, new_error
from skua._skua import ffi, lib
from skua._values import (Arguments, Batch, Bytes, Into, Seconds, c_text, nanoseconds, numbers_of, rows_of, value_of, values_of,
                          whole_nanoseconds, written_of)

# The options of clients that are times.
_TIMES = ("timeout", "spin")


class Calls:
    _client: Any

    def _run(self, name: str, convert: Callable[[Any], Any], arguments: Arguments, *words: Any) -> Any:
        raise NotImplementedError

    def certificate_trouble(self) -> str | None:
        """Why the certificate could not be renewed the last time (option renew_certificate). None: all is well."""
        client = self._client  # another thread may close it meanwhile
        if client is None:
            raise Cancelled("the client is closed", "CANCELLED")
        error = new_error()
        code = lib.skua_certificate_trouble(client, error)
        if code not in (lib.SKUA_OK, lib.SKUA_UNAVAILABLE):
            check(code, error)
        return None if code == lib.SKUA_OK else ffi.string(error.text).decode(errors="replace")

    def get(self, table: str, key: Bytes, **options: Any) -> Any:
        """A Value, or None if there is no such key. Options: timeout, with_ttl, at_least (a Token), fields (names of a
        row's fields: only these are read; see Value.fields())."""
        a = Arguments()
        return self._run("get", value_of, a, a.table(table), a.bytes(key), a.read(**options))

    def put(self, table: str, key: Bytes, value: Bytes, **options: Any) -> Any:
        """Writes; a Written. Options: if_version, if_absent, if_present, ttl, keep_ttl, durability, timeout."""
        a = Arguments()
        return self._run("put", written_of, a, a.table(table), a.bytes(key), a.bytes(value), a.write(**options))

    def remove(self, table: str, key: Bytes, **options: Any) -> Any:
        """Deletes; NotFound if there is no such key. Options: if_version, durability, timeout."""
        a = Arguments()
        return self._run("remove", written_of, a, a.table(table), a.bytes(key), a.write(**options))

    def add(self, table: str, key: Bytes, delta: int = 1, **options: Any) -> Any:
        """Adds to a counter; the Written's `number` is the sum."""
        a = Arguments()
        return self._run("add", written_of, a, a.table(table), a.bytes(key), delta, a.write(**options))

    def append(self, table: str, key: Bytes, value: Bytes, **options: Any) -> Any:
        """Appends bytes to a value; a missing key counts as an empty value."""
        a = Arguments()
        return self._run("append", written_of, a, a.table(table), a.bytes(key), a.bytes(value), a.write(**options))

    def expire(self, table: str, key: Bytes, ttl: Seconds | None, **options: Any) -> Any:
        """The key vanishes after `ttl`; None: never."""
        a = Arguments()
        return self._run("expire", written_of, a, a.table(table), a.bytes(key), nanoseconds("ttl", ttl), a.write(**options))

    def patch(self, table: str, key: Bytes, fields: Mapping[str, Bytes | None], *, create_if_missing: bool = False,
              **options: Any) -> Any:
        """Replaces or adds fields of a row; removes those whose value is None. The key goes with its last field."""
        a = Arguments()
        return self._run("patch", written_of, a, a.table(table), a.bytes(key), a.fields(fields), len(fields), create_if_missing,
                         a.write(**options))

    def multi_get(self, table: str, keys: Iterable[Bytes], **options: Any) -> Any:
        """A list with a Value or None for each of 1 to 1,024 keys."""
        a = Arguments()
        listed = list(keys)
        return self._run("multi_get", values_of, a, a.table(table), a.keys(listed), len(listed), a.read(**options))

    def get_into(self, table: str, key: Bytes, buffer: Any, **options: Any) -> Any:
        """Puts the value into `buffer`, which is anything writable without gaps (a bytearray, memoryview, numpy array);
        brings its size in bytes, or None if there is no such key. BufferTooSmall: the value is larger; nothing was written.
        What lies in the buffer behind the value stays. Options: timeout, at_least."""
        a = Arguments()
        into = Into([buffer])
        return self._run("get", into.of_one, a, a.table(table), a.bytes(key), a.read(**options))

    def multi_get_into(self, table: str, keys: Iterable[Bytes], buffers: Iterable[Any], **options: Any) -> Any:
        """As get_into(), for 1 to 1,024 keys with a buffer each; a list with a size or None for each. BufferTooSmall: nothing
        was written into any of them."""
        a = Arguments()
        listed, into = list(keys), Into(buffers)
        into.check_count(len(listed))
        return self._run("multi_get", into.of_many, a, a.table(table), a.keys(listed), len(listed), a.read(**options))

    def scan(self, table: str, start: Bytes = b"", end: Bytes = b"", *, limit: int = 100, **options: Any) -> Any:
        """Rows from `start` to before `end`, at most `limit`; go on at their `next_start`."""
        a = Arguments()
        return self._run("scan", rows_of, a, a.table(table), a.range(start, end, limit), a.read(**options))

    def batch(self, table: str, batch: Batch, **options: Any) -> Any:
        """Applies all operations of the batch, or none; a list with the sum for each add, 0 for each other one."""
        a = Arguments()
        return self._run("batch_run", numbers_of, a, a.table(table), batch.handle, a.write(**options))


def option_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (float, datetime.timedelta)) or (isinstance(value, int) and name in _TIMES):
        return f"{whole_nanoseconds(value)}ns"
    return str(value)


def make_client(create: Any, options: Mapping[str, Any]) -> Any:
    """A skua_client. `options`: those of skua_options_set(), with _ for -. A number that is a time is in seconds. None: as
    if the option were not there. Raises why there is none."""
    error = new_error()
    handle = ffi.gc(lib.skua_options_create(), lib.skua_options_destroy)
    for name, value in options.items():
        if value is None:
            continue
        text = c_text(f"option {name}", option_text(name, value))
        check(lib.skua_options_set(handle, name.replace("_", "-").encode(), text, error), error)
    client = create(handle, error)
    check(error.code, error)
    return client
