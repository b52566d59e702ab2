"""The stored array, its chunks and its codecs."""

from dataclasses import dataclass

import numpy as np

ROW_NITEMS = 1000
ROW_NBYTES = ROW_NITEMS * 4
GENERATOR = (
    "float32, rows of 1,000: 20 + 8 sin(i/700) cos(j/90) + 3 sin(j/33 + i/400) + normal noise of "
    "deviation 0.5 (seed 1), rounded to multiples of 1/16, as a sensor of limited resolution"
)


@dataclass(frozen=True, slots=True)
class Spec:
    """How an array is stored: Blosc with byte shuffle, and the chunks."""

    codec: str
    clevel: int
    chunk_rows: int
    chunk: str  # the size of a chunk in words

    def __str__(self) -> str:
        return f"{self.codec}-{self.clevel}, {self.chunk}"

    @property
    def chunk_nbytes(self) -> int:
        """Decoded bytes of a chunk of the array of `field`."""
        return self.chunk_rows * ROW_NBYTES


LARGE = 262  # rows: 1,048,000 bytes, nearest to 1 MiB
SMALL = 16  # rows: 64,000 bytes
LZ4 = Spec("lz4", 5, LARGE, "1 MiB")
ZSTD = Spec("zstd", 3, LARGE, "1 MiB")
LZ4_SMALL = Spec("lz4", 5, SMALL, "64 KB")
ZSTD_SMALL = Spec("zstd", 3, SMALL, "64 KB")
SPECS = (LZ4, ZSTD, LZ4_SMALL, ZSTD_SMALL)

# How much is done: in a full run, and in a try.
SETTINGS = {
    "nrows": (32_000, 2_200),
    "nrounds": (9, 2),  # of a race with whole arrays or files
    "nrounds_of_parts": (21, 2),  # of a race with small parts of them
    "ntiny": (1_000_000, 3_000),  # chunks in the file of very many
    "ncommits": (100, 3),  # of many changed items; ten times as many of a changed row
    "nflips": (500, 20),  # trials per format and region of the file
}


def field(nrows: int) -> np.ndarray:
    """Return the array, float32 of shape (nrows, 1000), the same for every call.

    A smooth field with noise of limited mantissa; see `GENERATOR`. C-Blosc stores it 2.8 times
    smaller with LZ4 and 3.8 times with Zstandard, and decodes the first 2 to 4 times as fast.
    """
    row = np.arange(nrows, dtype=np.float32)[:, None]
    column = np.arange(ROW_NITEMS, dtype=np.float32)[None, :]
    values = 8 * np.sin(row / 700) * np.cos(column / 90) + 3 * np.sin(column / 33 + row / 400)
    values += 20
    rng = np.random.default_rng(1)
    for start in range(0, nrows, 1000):  # in pieces: the noise is made in twice the precision
        part = values[start : start + 1000]
        part += rng.normal(0, 0.5, part.shape)
        part[...] = np.round(part * 16) / 16
    return values
