"""What is packed and unpacked."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from harness import signal

from bloscpack.array import layout
from bloscpack.original import pack

CHUNK_NBYTES = 1 << 20  # the default of bloscpack 0.16


@dataclass(frozen=True, slots=True)
class Case:
    """An array and the codec for it.

    Attributes
    ----------
    name : str
        Its size in words.
    nbytes : int
        Its size.
    dtype : str
        Of the array.
    codec, clevel
        For C-Blosc.
    is_first : bool
        Forget before each call the metadata of arrays seen before.
    """

    name: str
    nbytes: int
    dtype: str
    codec: str
    clevel: int
    is_first: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {self.codec}-{self.clevel}"

    def array(self) -> np.ndarray:
        """Return the array, the same each time."""
        return signal(self.nbytes, self.dtype)

    def prepared(self, call: Callable[[], object]) -> Callable[[], object]:
        """Return `call`, or for the first of its kind one that forgets others before."""
        if not self.is_first:
            return call

        def forget_and_call() -> object:
            layout._describe_stored.cache_clear()
            pack._array_section.cache_clear()
            return call()

        return forget_and_call


CASES = (
    Case("1 KiB", 1 << 10, "float64", "blosclz", 7),
    Case("1 KiB, new shape,", 1 << 10, "float64", "blosclz", 7, is_first=True),
    Case("80 KB", 80_000, "float64", "blosclz", 7),
    Case("128 MB", 128_000_000, "float32", "blosclz", 7),
    Case("128 MB", 128_000_000, "float32", "lz4", 5),
    Case("128 MB", 128_000_000, "float32", "zstd", 3),
)
