"""What build.py makes of skua.h: everything in it is cffi's."""

from typing import Any

ffi: Any
lib: Any
