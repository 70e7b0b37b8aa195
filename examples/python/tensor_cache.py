#!/usr/bin/env python3
"""A cache of tensors: numpy arrays in a table, which many processes and machines share.

  tensor_cache.py CONTROL_ADDRESS TABLE

stores an array and reads it again. An array is stored in parts, since a value has at most 16 MiB. Parts are read straight
into the memory of the new array. What describes the array is written last, and names its parts: a reader finds a whole array
or none, also while another one is stored under the same name.
"""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

import numpy as np
import numpy.typing as npt
import skua

PART_BYTES = 4 << 20
# Parts that a call reads.
PARTS_AT_A_TIME = 16


class TensorCache:
    """Arrays by name. Each vanishes `ttl` seconds after it was stored."""

    def __init__(self, client: skua.Client, table: str, ttl: float) -> None:
        self._client = client
        self._table = table
        self._ttl = ttl

    def store(self, name: str, array: npt.NDArray[Any]) -> None:
        array = np.ascontiguousarray(array)
        about = {"id": uuid.uuid4().hex, "dtype": array.dtype.str, "shape": array.shape}
        for key, part in parts_of(str(about["id"]), array):
            # Longer than what names it.
            self._client.put(self._table, key, part, ttl=self._ttl + 60)
        self._client.put(self._table, f"tensor/{name}", json.dumps(about), ttl=self._ttl)

    def load(self, name: str) -> npt.NDArray[Any] | None:
        """None: there is none, or its time is up."""
        found = self._client.get(self._table, f"tensor/{name}")
        if found is None:
            return None
        about = json.loads(bytes(found))
        array = np.empty(about["shape"], about["dtype"])
        parts = parts_of(about["id"], array)
        for first in range(0, len(parts), PARTS_AT_A_TIME):
            keys, buffers = zip(*parts[first:first + PARTS_AT_A_TIME])
            sizes = self._client.multi_get_into(self._table, keys, buffers)
            if sizes != [len(buffer) for buffer in buffers]:
                return None
        return array


def parts_of(identity: str, array: npt.NDArray[Any]) -> list[tuple[str, memoryview]]:
    """The keys of an array's parts, and the memory of each."""
    memory = array.reshape(-1).view(np.uint8).data
    return [(f"part/{identity}/{begin}", memory[begin:begin + PART_BYTES]) for begin in range(0, len(memory), PART_BYTES)]


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: tensor_cache.py CONTROL_ADDRESS TABLE")
    with skua.Client(control_address=sys.argv[1]) as client:
        cache = TensorCache(client, sys.argv[2], ttl=3600)
        state = np.random.default_rng(1).standard_normal((24, 512, 256), dtype=np.float32)
        cache.store("layer7", state)
        again = cache.load("layer7")
        print("loaded", "nothing" if again is None else f"{again.nbytes >> 20} MiB, {again.dtype}, shape {again.shape}")
        sys.exit(0 if again is not None and np.array_equal(state, again) else 1)


if __name__ == "__main__":
    main()
