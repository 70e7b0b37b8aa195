"""The client for asyncio. It belongs to the event loop that runs when it is made, and has no thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from skua._calls import Calls, make_client
from skua._errors import Cancelled, check, new_error
from skua._skua import ffi, lib
from skua._values import Arguments

# The longest sleep of a timer.
_SLEEP_MAX_S = 3600.0
# How often the client is polled in one turn of the loop, while it has work left. Then others have their turn.
_POLLS_MAX = 16

# Operations in flight, of all clients: the context of a callback is a number, and not a pointer that Python must keep.
_in_flight: dict[int, tuple[asyncio.Future[Any], Callable[[Any], Any]]] = {}
_next_number = 1


@ffi.def_extern()
def skua_python_done(context: Any, result: Any) -> None:
    future, convert = _in_flight.pop(int(ffi.cast("uintptr_t", context)))
    if future.done():
        return  # the task that awaited it was cancelled
    try:
        future.set_result(convert(ffi.gc(lib.skua_result_keep(result), lib.skua_result_release)))
    except Exception as error:  # pylint: disable=broad-exception-caught
        future.set_exception(error)


class AsyncClient(Calls):
    """As Client; its operations are awaited. close() it, or use it in an `async with`. A task that is cancelled leaves its
    operation under way."""

    def __init__(self, **options: Any) -> None:
        self._client: Any = None
        self._loop = asyncio.get_running_loop()
        self._client = make_client(lib.skua_client_create_polled, options)
        self._longest = ffi.new("int64_t*")
        self._is_waiting = False
        self._is_turn_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor = lib.skua_wait_fd(self._client)
        self._loop.add_reader(self._descriptor, self._turn)
        self._ask_for_turn()

    async def close(self) -> None:
        """Operations in flight end with Cancelled."""
        client, self._client = self._client, None
        if client is None:
            return
        self._loop.remove_reader(self._descriptor)
        self._cancel_timer()
        lib.skua_client_destroy(client)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _run(self, name: str, convert: Callable[[Any], Any], arguments: Arguments, *words: Any) -> Any:
        global _next_number  # pylint: disable=global-statement
        if self._client is None:
            raise Cancelled("the client is closed", "CANCELLED")
        self._end_wait()
        number, _next_number = _next_number, _next_number + 1
        future = self._loop.create_future()
        _in_flight[number] = (future, convert)
        error = new_error()
        code = getattr(lib, f"skua_async_{name}")(self._client, *words, lib.skua_python_done, ffi.cast("void*", number), error)
        del arguments
        self._ask_for_turn()
        if code != lib.SKUA_OK:
            del _in_flight[number]
            check(code, error)
        return future

    def _ask_for_turn(self) -> None:
        """Once for all operations that begin in one turn of the loop."""
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        if self._client is None:
            return
        self._end_wait()
        for _ in range(_POLLS_MAX):
            lib.skua_poll(self._client, 0, ffi.NULL)
            if lib.skua_begin_wait(self._client, self._longest):
                self._is_waiting = True
                self._timer = self._loop.call_later(min(self._longest[0] / 1e9, _SLEEP_MAX_S), self._turn)
                return
        self._ask_for_turn()

    def _end_wait(self) -> None:
        self._cancel_timer()
        if self._is_waiting:
            self._is_waiting = False
            lib.skua_end_wait(self._client)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
