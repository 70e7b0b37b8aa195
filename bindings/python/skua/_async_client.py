"""The client for asyncio. It belongs to the event loop that runs when it is made, and has no thread of its own."""

from __future__ import annotations

import asyncio
import itertools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from skua._calls import Calls, make_client
from skua._errors import Cancelled, Error, error_from, make_error, new_error
from skua._skua import ffi, lib
from skua._values import KEEPING, WRITES, Arguments

# The longest sleep of a timer.
_SLEEP_MAX_S = 3600.0
# How often the client is polled in one turn of the loop, while it has work left. Then others have their turn.
_POLLS_MAX = 16

# Operations in flight, of all clients: the context of a callback is a number, and not a pointer that Python must keep.
_in_flight: dict[int, tuple[AsyncClient, asyncio.Future[Any], Callable[[Any], Any]]] = {}
# Loops of several threads draw from it: next() is one step of the interpreter.
_numbers = itertools.count(1)


# What signal handlers raised inside of callbacks, by the thread of the callback. cffi would print it and go on; whoever has
# polled the client raises it again.
_raised: dict[int, BaseException] = {}


def _raise_again() -> None:
    error = _raised.pop(threading.get_ident(), None)
    if error is not None:
        raise error


def _interrupted(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
    """A signal handler has raised inside of skua_python_done(), at any place. The operation ends all the same."""
    del kind
    _raised[threading.get_ident()] = error
    known = traceback.tb_frame.f_locals
    _, future, convert = _in_flight.pop(_number_of(known["context"]), (None, known.get("future"), known.get("convert")))
    if future is not None and not future.done():
        future.set_exception(Error(f"its result was lost: a signal handler raised {error!r} meanwhile",
                                   may_have_been_applied=convert in WRITES))


def _number_of(context: Any) -> int:
    return int(ffi.cast("uintptr_t", context))


@ffi.def_extern(onerror=_interrupted)  # type: ignore[misc]
def skua_python_done(context: Any, result: Any) -> None:
    _, future, convert = _in_flight.pop(_number_of(context))
    if future.done():
        return  # the task that awaited it was cancelled
    try:
        if convert in KEEPING:
            result = ffi.gc(lib.skua_result_keep(result), lib.skua_result_release)
        future.set_result(convert(result))
    except Exception as error:  # pylint: disable=broad-exception-caught
        future.set_exception(error)


class AsyncClient(Calls):
    """As Client; its operations are awaited. close() it, or use it in an `async with`. A task that is cancelled leaves its
    operation under way. Calls on another thread than the loop's raise RuntimeError."""

    def __init__(self, **options: Any) -> None:
        self._client: Any = None
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._failure: Error | None = None
        self._client = make_client(lib.skua_client_create_polled, options)
        self._longest = ffi.new("int64_t*")
        self._is_waiting = False
        self._is_turn_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor = lib.skua_wait_fd(self._client)
        self._watch()
        self._ask_for_turn()

    def _watch(self) -> None:
        # DPDK and verbs have no descriptor: the timer alone makes turns.
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._turn)

    async def close(self) -> None:
        """Operations in flight end with Cancelled."""
        if self._client is None:
            return
        self._check_thread()
        # Before the client closes the descriptor: its number may belong to another file afterwards.
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
        code = lib.skua_client_destroy(self._client)
        if code != lib.SKUA_OK:
            if self._failure is None:
                self._watch()
            raise make_error(code, "the client could not be closed")
        self._client = None
        self._cancel_timer()
        _raise_again()

    def certificate_trouble(self) -> str | None:
        self._check_thread()  # close() on the loop's thread would free the client meanwhile
        return super().certificate_trouble()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        # Any thread may be here, and the loop may be gone: too late for close().
        if self._client is not None:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self)

    def _run(self, name: str, convert: Callable[[Any], Any], arguments: Arguments, *words: Any) -> Any:
        self._check_thread()
        future = self._loop.create_future()
        failure = Cancelled("the client is closed", "CANCELLED") if self._client is None else self._failure
        if failure is None:
            failure = self._submit(name, (self, future, convert), words)
        del arguments
        # Refusals also come by the future. If gather() makes many operations, one refusal must not lose the others' futures.
        if failure is not None:
            future.set_exception(failure)
        return future

    def _submit(self, name: str, operation: tuple[AsyncClient, asyncio.Future[Any], Callable[[Any], Any]],
                words: tuple[Any, ...]) -> Error | None:
        """Why the operation was refused."""
        number = next(_numbers)
        error = new_error()
        code = None
        self._end_wait()
        _in_flight[number] = operation
        try:
            submit = getattr(lib, f"skua_async_{name}")
            code = submit(self._client, *words, lib.skua_python_done, ffi.cast("void*", number), error)
        finally:
            # Also if a word does not fit into its C type, which raises: the wait has ended, so that a turn must follow.
            if code != lib.SKUA_OK:
                del _in_flight[number]
            self._ask_for_turn()
        return error_from(code, error)

    def _check_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError("this AsyncClient belongs to another thread: asyncio.run_coroutine_threadsafe() runs a coroutine "
                               "there")

    def _ask_for_turn(self) -> None:
        """Once for all operations that begin in one turn of the loop."""
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        if self._client is None or self._failure is not None:
            return
        self._end_wait()
        for _ in range(_POLLS_MAX):
            code = lib.skua_poll(self._client, 0, ffi.NULL)
            if code != lib.SKUA_OK:
                self._fail(code, "the client could not be polled")
                _raise_again()
                return
            if threading.get_ident() in _raised:
                self._ask_for_turn()
                _raise_again()
            if lib.skua_begin_wait(self._client, self._longest):
                self._is_waiting = True
                self._timer = self._loop.call_later(min(self._longest[0] / 1e9, _SLEEP_MAX_S), self._turn)
                return
        self._ask_for_turn()

    def _fail(self, code: int, text: str) -> None:
        """Ends what is in flight, and refuses all that comes: nobody polls the client any more."""
        self._failure = make_error(code, text)
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
        for owner, future, convert in list(_in_flight.values()):
            if owner is self and not future.done():
                future.set_exception(make_error(code, text, may_have_been_applied=convert in WRITES))

    def _end_wait(self) -> None:
        self._cancel_timer()
        if self._is_waiting and lib.skua_end_wait(self._client) == lib.SKUA_OK:
            self._is_waiting = False

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
