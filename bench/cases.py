"""Arrays that are packed and unpacked."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from race.timing import signal

from bloscpack.array import layout
from bloscpack.original import pack

CHUNK_NBYTES = 1 << 20  # the default of bloscpack 0.16


@dataclass(frozen=True, slots=True)
class Case:
    """An array and the codec for it."""

    name: str  # the size in words
    nbytes: int
    dtype: str
    codec: str
    clevel: int
    is_first: bool = False  # clear the cache of metadata before each call

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {self.codec}-{self.clevel}"

    def array(self) -> np.ndarray:
        """Return the array, the same each time."""
        return signal(self.nbytes, self.dtype)

    def prepared(self, call: Callable[[], object]) -> Callable[[], object]:
        """Return `call`; where `is_first`, one that clears the cache of metadata before."""
        if not self.is_first:
            return call

        def clear_and_call() -> object:
            layout._describe_stored.cache_clear()
            pack._array_section.cache_clear()
            return call()

        return clear_and_call


CASES = (
    Case("1 KiB", 1 << 10, "float64", "blosclz", 7),
    Case("1 KiB, new shape,", 1 << 10, "float64", "blosclz", 7, is_first=True),
    Case("80 KB", 80_000, "float64", "blosclz", 7),
    Case("128 MB", 128_000_000, "float32", "blosclz", 7),
    Case("128 MB", 128_000_000, "float32", "lz4", 5),
    Case("128 MB", 128_000_000, "float32", "zstd", 3),
)
