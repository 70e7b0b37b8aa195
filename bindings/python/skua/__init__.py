"""Skua's client library for Python.

    with skua.Client(control_address="127.0.0.1:7400") as client:
        client.put("notes", "greeting", "hello")
        value = client.get("notes", "greeting")      # None: no such key
        print(bytes(value), value.version)

    async with skua.AsyncClient(control_address="127.0.0.1:7400") as client:
        value = await client.get("notes", "greeting")

Keys are str (encoded as UTF-8) or bytes-like, and come back as bytes. Values are written as keys are, and are read as a
skua.Value: bytes(value) copies it. Times are seconds, or a timedelta. Failures of operations are exceptions of type
skua.Error; an argument of the wrong type or range is a TypeError, ValueError or OverflowError. docs/python.md has more.
"""

from skua._async_client import AsyncClient
from skua._client import Client
from skua._errors import (Aborted, AlreadyExists, BufferTooSmall, Cancelled, DeadlineExceeded, Error, FailedPrecondition,
                          InvalidArgument, NotFound, OutOfRange, PermissionDenied, ResourceExhausted, Unavailable)
from skua._values import Batch, Durability, Outcome, Row, Rows, Token, Value, Written, library_version

__all__ = [
    "Aborted", "AlreadyExists", "AsyncClient", "Batch", "BufferTooSmall", "Cancelled", "Client", "DeadlineExceeded", "Durability",
    "Error", "FailedPrecondition", "InvalidArgument", "NotFound", "OutOfRange", "Outcome", "PermissionDenied",
    "ResourceExhausted", "Row", "Rows", "Token", "Unavailable", "Value", "Written", "library_version",
]
