"""Failures of operations, as exceptions: one class for each code that programs tell apart."""

from __future__ import annotations

from typing import Any

from skua._skua import ffi, lib

_BY_CODE: dict[int, type[Error]] = {}


class Error(Exception):
    """An operation failed.

    `text`: what was tried, on whom, and why it failed. `code`: a name such as "NOT_FOUND". `is_answer`: the store answered so; the same call would be answered the same.
    `may_have_been_applied`: a write was sent and its fate is not known; read before writing again. Neither: nothing
    changed, try again. `version`: the key's, if a condition did not hold.
    """

    def __init__(self, text: str, code: str = "UNKNOWN", *, is_answer: bool = False, may_have_been_applied: bool = False,
                 version: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.is_answer = is_answer
        self.may_have_been_applied = may_have_been_applied
        self.version = version

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


class Cancelled(Error):
    """The client was closed."""


class InvalidArgument(Error, ValueError):
    """Something that the call was given makes no sense, or exceeds a limit."""


class DeadlineExceeded(Error, TimeoutError):
    """The time was up."""


class NotFound(Error, KeyError):
    """No such key."""


class AlreadyExists(Error):
    """if_absent, and the key is there."""


class PermissionDenied(Error):
    """This client has no right to it."""


class ResourceExhausted(Error):
    """Too many operations at a time, no memory, or a quota."""


class FailedPrecondition(Error):
    """A condition does not hold, a value is of another kind, or there is no such table."""


class Aborted(Error):
    """The shard has forgotten this client."""


class OutOfRange(Error):
    """A counter beyond 64 bits."""


class BufferTooSmall(Error, ValueError):
    """A value does not fit into the buffer that it was to be read into. Nothing was written into any buffer.

    `position`: which buffer. `needed_bytes`: the size of the value."""

    def __init__(self, position: int, buffer_bytes: int, needed_bytes: int) -> None:
        super().__init__(f"buffer {position} has {buffer_bytes} bytes, and the value needs {needed_bytes}", "OUT_OF_RANGE",
                         is_answer=True)
        self.position = position
        self.needed_bytes = needed_bytes


class Unavailable(Error):
    """Nobody answers."""


_BY_CODE.update({
    lib.SKUA_CANCELLED: Cancelled, lib.SKUA_INVALID_ARGUMENT: InvalidArgument, lib.SKUA_DEADLINE_EXCEEDED: DeadlineExceeded,
    lib.SKUA_NOT_FOUND: NotFound, lib.SKUA_ALREADY_EXISTS: AlreadyExists, lib.SKUA_PERMISSION_DENIED: PermissionDenied,
    lib.SKUA_RESOURCE_EXHAUSTED: ResourceExhausted, lib.SKUA_FAILED_PRECONDITION: FailedPrecondition, lib.SKUA_ABORTED: Aborted,
    lib.SKUA_OUT_OF_RANGE: OutOfRange, lib.SKUA_UNAVAILABLE: Unavailable,
})


def make_error(code: int, text: str, **more: Any) -> Error:
    """The exception for a code of skua.h."""
    return _BY_CODE.get(code, Error)(text, ffi.string(lib.skua_code_name(code)).decode(), **more)


def error_of(result: Any) -> Error | None:
    """The exception for a result of skua.h; None if it is OK."""
    if result == ffi.NULL:
        return make_error(lib.SKUA_RESOURCE_EXHAUSTED, "no memory")
    code = lib.skua_result_code(result)
    if code == lib.SKUA_OK:
        return None
    return make_error(code, ffi.string(lib.skua_result_text(result)).decode(errors="replace"),
                      is_answer=lib.skua_result_outcome(result) == lib.SKUA_ANSWERED,
                      may_have_been_applied=lib.skua_may_have_been_applied(result), version=lib.skua_result_version(result))


def error_from(code: int, error: Any) -> Error | None:
    """What a skua_error says, as an exception; None if the code is OK."""
    return None if code == lib.SKUA_OK else make_error(code, ffi.string(error.text).decode(errors="replace"))


def check(code: int, error: Any) -> None:
    """Raises what a skua_error says."""
    failure = error_from(code, error)
    if failure is not None:
        raise failure


def new_error() -> Any:
    return ffi.new("skua_error*", {"size": ffi.sizeof("skua_error")})
