"""The limit: C-Blosc alone, through the `blosc` package, on the same chunks with the same threads.

Chunks are spread over threads, each chunk on one, which is faster than C-Blosc's own threads inside
a chunk. Nothing is checked and no container is made.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import blosc
import numpy as np
from race.timing import NTHREADS


def cut(array: np.ndarray, chunk_nbytes: int) -> list[memoryview]:
    """Return the bytes of `array` in chunks, views."""
    view = memoryview(array.reshape(-1).view(np.uint8))
    return [view[at : at + chunk_nbytes] for at in range(0, len(view), chunk_nbytes)]


def compress_call(
    array: np.ndarray, chunk_nbytes: int, codec: str, clevel: int
) -> Callable[[], list[bytes]]:
    """Return a call that compresses `array` chunk by chunk, with byte shuffle."""
    chunks = cut(array, chunk_nbytes)
    itemsize = array.dtype.itemsize

    def compress(chunk: memoryview) -> bytes:
        return blosc.compress(chunk, itemsize, clevel, blosc.SHUFFLE, codec)

    if len(chunks) == 1:
        _one_thread()
        return lambda: [compress(chunks[0])]
    pool = _pool()
    return lambda: list(pool.map(compress, chunks))


def decompress_call(
    chunks: list[bytes], like: np.ndarray, chunk_nbytes: int
) -> Callable[[], object]:
    """Return a call that decompresses `chunks` into a new array like `like`."""
    if len(chunks) == 1:
        _one_thread()
        return lambda: blosc.decompress(chunks[0])
    pool = _pool()

    def decompress() -> np.ndarray:
        out = np.empty_like(like)
        base = out.ctypes.data
        addresses = range(base, base + out.nbytes, chunk_nbytes)
        list(pool.map(blosc.decompress_ptr, chunks, addresses))
        return out

    return decompress


def _one_thread() -> None:
    blosc.set_nthreads(1)
    blosc.set_releasegil(False)


def _pool() -> ThreadPoolExecutor:
    blosc.set_nthreads(1)
    blosc.set_releasegil(True)
    return ThreadPoolExecutor(NTHREADS)
