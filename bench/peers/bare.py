"""C-Blosc alone, compiled from bare.c against the same static library as our kernels.

It decodes from memory and encodes to memory with as many threads as everyone has, and writes with
plain writes. It is the limit, not a peer: it checks nothing and its files cannot be opened.
"""

import ctypes
import os
import shlex
import subprocess
import sysconfig
from collections.abc import Sequence
from importlib.metadata import files
from pathlib import Path

import numpy as np

_MAX_OVERHEAD = 16  # BLOSC_MAX_OVERHEAD: the most bytes by which a chunk exceeds its content
_IOV_MAX = 1024


class NoBareError(Exception):
    """C-Blosc alone cannot be built here; the message says why."""


def build(folder: Path) -> ctypes.CDLL:
    """Compile bare.c into `folder` and load it.

    Raises
    ------
    NoBareError
        The compiler or the library to link is missing.
    """
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    target = folder / "bare.so"
    found = {entry.name: Path(str(entry.locate())).resolve() for entry in files("blosc") or []}
    if "libblosc.a" not in found or "blosc.h" not in found:
        raise NoBareError("the installed 'blosc' package carries no libblosc.a")
    command = [*compiler[:1], "-O3", "-shared", "-fPIC", "-pthread", "-o", target]
    command += ["-I", found["blosc.h"].parent, Path(__file__).with_name("bare.c")]
    command += [found["libblosc.a"], "-Wl,--exclude-libs,ALL"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    except subprocess.CalledProcessError as err:
        raise NoBareError(f"{compiler[0]} failed: {err.stderr.strip()[-300:]}") from err
    except OSError as err:
        raise NoBareError(f"cannot run the compiler: {err}") from err
    return ctypes.CDLL(str(target))


class Bare:
    """The functions of bare.c, a `library` of `build`, for chunks of `chunk_nbytes`."""

    def __init__(self, library: ctypes.CDLL, chunk_nbytes: int) -> None:
        self._library = library
        self._chunk_nbytes = chunk_nbytes

    def encoder(
        self, array: np.ndarray, codec: str, clevel: int, blocksize: int = 0
    ) -> "BareEncoder":
        """Return an encoder of `array`; `blocksize` 0 is C-Blosc's own choice."""
        return BareEncoder(self._library, array, self._chunk_nbytes, codec, clevel, blocksize)

    def decoder(self, chunks: Sequence[bytes], like: np.ndarray) -> "BareDecoder":
        """Return a decoder of `chunks` into new arrays like `like`."""
        return BareDecoder(self._library, chunks, like, self._chunk_nbytes)


class BareEncoder:
    """Compresses one array into slots that it reuses."""

    def __init__(
        self,
        library: ctypes.CDLL,
        array: np.ndarray,
        chunk_nbytes: int,
        codec: str,
        clevel: int,
        blocksize: int,
    ) -> None:
        self._library = library
        self._array = np.ascontiguousarray(array)
        nchunks = -(-array.nbytes // chunk_nbytes)
        room = chunk_nbytes + _MAX_OVERHEAD
        self._memory = np.zeros(nchunks * room, np.uint8)  # touched once, as a writer's own pool
        base = self._memory.ctypes.data
        self._slots = (ctypes.c_void_p * nchunks)(*range(base, base + nchunks * room, room))
        self._sizes = (ctypes.c_size_t * nchunks)()
        self._room = room
        self._arguments = (
            ctypes.c_void_p(self._array.ctypes.data),
            ctypes.c_size_t(nchunks),
            ctypes.c_size_t(chunk_nbytes),
            ctypes.c_size_t(array.nbytes),
            ctypes.c_int(array.dtype.itemsize),
            codec.encode("ascii"),
            ctypes.c_int(clevel),
            ctypes.c_size_t(blocksize),
            self._slots,
            self._sizes,
        )

    def encode(self, nthreads: int) -> list[memoryview]:
        """Compress; return the chunks, views that the next call overwrites."""
        code = self._library.bare_encode(*self._arguments, ctypes.c_int(nthreads))
        if code:
            raise RuntimeError("C-Blosc failed to compress")
        view, room = memoryview(self._memory), self._room
        return [view[at * room : at * room + size] for at, size in enumerate(self._sizes)]

    def write(self, path: Path, nthreads: int, *, is_synced: bool = False) -> None:
        """Compress and write the chunks one after the other to a new file."""
        chunks = self.encode(nthreads)
        path.unlink(missing_ok=True)
        with path.open("xb", buffering=0) as stream:
            for at in range(0, len(chunks), _IOV_MAX):
                batch = chunks[at : at + _IOV_MAX]
                if os.writev(stream.fileno(), batch) != sum(map(len, batch)):
                    raise OSError(f"{path}: a short write")
            if is_synced:
                os.fsync(stream.fileno())


class BareDecoder:
    """Decodes chunks in memory, all or a part."""

    def __init__(
        self, library: ctypes.CDLL, chunks: Sequence[bytes], like: np.ndarray, chunk_nbytes: int
    ) -> None:
        self._library = library
        self._chunks = list(chunks)
        self._like = like
        self._chunk_nbytes = chunk_nbytes
        self._pointers = (ctypes.c_char_p * len(chunks))(*self._chunks)

    def decode(self, nthreads: int) -> np.ndarray:
        """Decode all into a new array."""
        out = np.empty_like(self._like)
        code = self._library.bare_decode(
            self._pointers,
            ctypes.c_size_t(len(self._chunks)),
            ctypes.c_size_t(self._chunk_nbytes),
            ctypes.c_size_t(out.nbytes),
            ctypes.c_void_p(out.ctypes.data),
            ctypes.c_int(nthreads),
        )
        if code:
            raise RuntimeError("C-Blosc failed to decode")
        return out

    def decode_chunk(self, index: int, out: np.ndarray) -> None:
        """Decode one whole chunk into `out`, of its size."""
        code = self._library.bare_decode(
            ctypes.byref(self._pointers, index * ctypes.sizeof(ctypes.c_char_p)),
            ctypes.c_size_t(1),
            ctypes.c_size_t(out.nbytes),
            ctypes.c_size_t(out.nbytes),
            ctypes.c_void_p(out.ctypes.data),
            ctypes.c_int(1),
        )
        if code:
            raise RuntimeError(f"C-Blosc failed to decode chunk {index}")

    def decode_row(self, row: int) -> np.ndarray:
        """Decode one row into a new array, only the Blosc blocks it lies in."""
        out = np.empty(self._like.shape[1:], self._like.dtype)
        index, start = divmod(row * out.nbytes, self._chunk_nbytes)
        code = self._library.bare_items(
            ctypes.c_char_p(self._chunks[index]),
            ctypes.c_int(start // out.itemsize),
            ctypes.c_int(out.size),
            ctypes.c_int(out.nbytes),
            ctypes.c_void_p(out.ctypes.data),
        )
        if code:
            raise RuntimeError(f"C-Blosc failed to decode row {row}")
        return out
