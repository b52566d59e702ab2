"""What is packed and unpacked."""

from dataclasses import dataclass

import numpy as np
from harness import signal

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
    """

    name: str
    nbytes: int
    dtype: str
    codec: str
    clevel: int

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {self.codec}-{self.clevel}"

    def array(self) -> np.ndarray:
        """Return the array, the same each time."""
        return signal(self.nbytes, self.dtype)


CASES = (
    Case("1 KiB", 1 << 10, "float64", "blosclz", 7),
    Case("80 KB", 80_000, "float64", "blosclz", 7),
    Case("128 MB", 128_000_000, "float32", "blosclz", 7),
    Case("128 MB", 128_000_000, "float32", "lz4", 5),
    Case("128 MB", 128_000_000, "float32", "zstd", 3),
)
