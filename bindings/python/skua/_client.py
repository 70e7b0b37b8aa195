"""The client that blocks. Any number of threads may share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skua._calls import Calls, make_client
from skua._errors import Cancelled
from skua._skua import ffi, lib
from skua._values import Arguments


class Client(Calls):
    """Client(control_address="10.0.0.1:7400", timeout=5.0, cert=..., key=..., ca=...): the options of docs/c.md.

    close() it, or use it in a `with`. Calls of other threads that are under way end as they would have ended without close().
    """

    def __init__(self, **options: Any) -> None:
        self._client: Any = None
        self._client = ffi.gc(make_client(lib.skua_client_create, options), lib.skua_client_destroy)

    def close(self) -> None:
        # Each call under way has a reference. The last reference destroys the client.
        self._client = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, name: str, convert: Callable[[Any], Any], arguments: Arguments, *words: Any) -> Any:
        client = self._client
        if client is None:
            raise Cancelled("the client is closed", "CANCELLED")
        # Other Python threads run meanwhile: cffi lets go of the interpreter's lock.
        result = getattr(lib, f"skua_{name}")(client, *words)
        del arguments, client
        return convert(ffi.gc(result, lib.skua_result_release))
