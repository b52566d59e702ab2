"""Reading one chunk of a large file by its index: the cost of finding and checking it.

A file of 128 MB float32 with 123 chunks of 1 MiB, or 1954 of 64 KiB, in the page cache; 16 chunks
spread evenly over it are read in an order that was shuffled once. Times are for one. bloscpack
reads through one open handle, finds the chunk by the offset table, checks its crc32 and decodes
it. C-Blosc is given position and size of each chunk and reads and decodes, unchecked. bloscpack
0.16 has no access by index: it opens the file and reads all chunks up to the one wanted, but
decodes only that one.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import blosc
import numpy as np
import pytest
from race.original import Original
from race.timing import BARE, ORIGINAL, OURS, Loop, loop_of, signal
from ratios import CONTENDERS
from replay import replay

import bloscpack as bp

pytestmark = pytest.mark.benchmark(timer=replay)

NBYTES = 128_000_000
NREAD = 16
CASES = [
    pytest.param(chunk_nbytes, codec, id=f"{chunk_nbytes >> 10} KiB {codec}")
    for chunk_nbytes in (1 << 20, 1 << 16)
    for codec in ("lz4", "zstd")
]


@pytest.mark.parametrize("who", CONTENDERS)
@pytest.mark.parametrize(("chunk_nbytes", "codec"), CASES)
def test_chunk(chunk_nbytes: int, codec: str, who: str, race: Callable[..., None]) -> None:
    """Time ``Array.read_chunk``."""

    def enter(original: Original | None, folder: Path) -> dict[str, Loop]:
        values = signal(NBYTES, "float32")
        path = folder / "array.blp"
        bp.save(path, values, chunks=chunk_nbytes // values.itemsize, codec=codec)
        array = bp.open(path)
        # Whole chunks only, so that every read is of the same size.
        spread = np.linspace(0, NBYTES // chunk_nbytes - 1, NREAD).astype(int)
        indices = np.random.default_rng(2).permutation(spread).tolist()

        def read() -> list[bytearray]:
            return [array.read_chunk(index) for index in indices]

        places = stored_places(path, array, indices)
        fd = os.open(path, os.O_RDONLY)
        blosc.set_nthreads(1)
        blosc.set_releasegil(False)

        def read_bare() -> list[bytes]:
            return [blosc.decompress(os.pread(fd, cbytes, at)) for at, cbytes in places]

        content = values.tobytes()
        expected = [content[at : at + chunk_nbytes] for at in np.multiply(indices, chunk_nbytes)]
        assert read() == expected
        assert read_bare() == expected
        loops = {OURS: loop_of(read), BARE: loop_of(read_bare)}
        if original is not None:
            digest = hashlib.sha256(b"".join(expected)).hexdigest()
            loops[ORIGINAL] = original.loop("chunks", digest, packed=str(path), indices=indices)
        return loops

    race(f"chunk of {chunk_nbytes >> 10} KiB, {codec}", who, chunk_nbytes, enter, NREAD)


def stored_places(path: Path, array: bp.Array, indices: list[int]) -> list[tuple[int, int]]:
    """Return position and stored size of each chunk."""
    places = []
    with path.open("rb") as stream:
        for index in indices:
            offset = array.chunk_offset(index)
            stream.seek(offset + 12)
            places.append((offset, int.from_bytes(stream.read(4), "little")))
    return places
