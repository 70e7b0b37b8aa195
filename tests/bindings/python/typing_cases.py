"""What a type checker must say of programs with the package `skua`; python_package_test.py runs mypy --strict on it. Nobody
runs this file. A mistake that mypy does not find is one here as well, for its "type: ignore" is unused then."""

from __future__ import annotations

import asyncio
import datetime

import skua


def blocking(client: skua.Client) -> None:
    value: skua.Value | None = client.get("t", b"key", with_ttl=True, timeout=datetime.timedelta(seconds=1))
    client.get("t", "key").version  # type: ignore[union-attr]
    client.get("t", "key", fields=3)  # type: ignore[arg-type]
    if value is not None:
        fields: dict[str, bytes] = value.fields()
        client.get("t", "key", fields=fields)
        text: str = value.view.tobytes().decode()
        client.put("t", text, value.view, if_version=value.version, durability=skua.Durability.SYNC)
    size: int | None = client.get_into("t", "key", bytearray(10))
    sizes: list[int | None] = client.multi_get_into("t", ["a"], [memoryview(bytearray(size or 0))])
    client.put("t", "key", len(sizes))  # type: ignore[arg-type]
    client.put("t", "key", "value", with_ttl=True)  # type: ignore[call-arg]
    written: skua.Written = client.add("t", "counter")
    client.get("t", "key", at_least=written.token)
    client.expire("t", "key", None)
    for row in client.scan("t", limit=3):
        print(row.key.decode(), row.version)
    sums: list[int] = client.batch("t", skua.Batch().put("a", "1").add("n", 1))
    client.batch("t", sums)  # type: ignore[arg-type]
    try:
        client.get_into("t", "key", bytearray())
    except skua.BufferTooSmall as error:
        print(error.needed_bytes + error.position)
    except skua.Error as error:
        print(error.code, error.may_have_been_applied)


async def awaited() -> None:
    async with skua.AsyncClient(control_address="127.0.0.1:7400", timeout=5.0) as client:
        value = await client.get("t", "key")
        print(None if value is None else bytes(value))
        print(len(client.get("t", "key")))  # type: ignore[arg-type]
        both = await asyncio.gather(client.add("t", "n"), client.get_into("t", "key", bytearray(1)))
        print(both[0].number, both[1] or 0)
