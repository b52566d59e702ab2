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

from peers.data import Spec

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
    library = ctypes.CDLL(str(target))
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    text = ctypes.c_char_p
    library.bare_decode.argtypes = (pointer, size, size, size, pointer, number)
    library.bare_encode.argtypes = (
        *(pointer, size, size, size, number, text, number, size),
        *(pointer, pointer, number),
    )
    library.bare_items.argtypes = (text, number, number, number, pointer)
    for function in (library.bare_decode, library.bare_encode, library.bare_items):
        function.restype = _require_success
    return library


def _require_success(code: int) -> None:
    if code:
        raise RuntimeError("C-Blosc failed")


class BareEncoder:
    """Compresses one array into slots that it reuses; `blocksize` 0 is C-Blosc's own choice."""

    def __init__(
        self, library: ctypes.CDLL, array: np.ndarray, spec: Spec, blocksize: int = 0
    ) -> None:
        self._library = library
        self._array = np.ascontiguousarray(array)
        self._spec, self._blocksize = spec, blocksize
        nchunks = -(-array.nbytes // spec.chunk_nbytes)
        room = spec.chunk_nbytes + _MAX_OVERHEAD
        self._memory = np.zeros(nchunks * room, np.uint8)  # touched once, as a writer's own pool
        base = self._memory.ctypes.data
        self._slots = (ctypes.c_void_p * nchunks)(*range(base, base + nchunks * room, room))
        self._sizes = (ctypes.c_size_t * nchunks)()
        self._room = room

    def encode(self, nthreads: int) -> list[memoryview]:
        """Compress; return the chunks, views that the next call overwrites."""
        array, spec = self._array, self._spec
        self._library.bare_encode(
            *(array.ctypes.data, len(self._sizes), spec.chunk_nbytes, array.nbytes),
            *(array.itemsize, spec.codec.encode(), spec.clevel, self._blocksize),
            *(self._slots, self._sizes, nthreads),
        )
        view, room = memoryview(self._memory), self._room
        return [view[at * room : at * room + size] for at, size in enumerate(self._sizes)]

    def write(self, path: Path, nthreads: int) -> None:
        """Compress and write the chunks one after the other to a new file."""
        chunks = self.encode(nthreads)
        path.unlink(missing_ok=True)
        with path.open("xb", buffering=0) as stream:
            for at in range(0, len(chunks), _IOV_MAX):
                batch = chunks[at : at + _IOV_MAX]
                if os.writev(stream.fileno(), batch) != sum(map(len, batch)):
                    raise OSError(f"{path}: a short write")


class BareDecoder:
    """Decodes chunks in memory, all or a part, into new arrays like `like`."""

    def __init__(
        self, library: ctypes.CDLL, chunks: Sequence[bytes], like: np.ndarray, chunk_nbytes: int
    ) -> None:
        self._library, self._like, self._chunk_nbytes = library, like, chunk_nbytes
        self._chunks = list(chunks)
        self._pointers = (ctypes.c_char_p * len(chunks))(*self._chunks)

    def decode(self, nthreads: int) -> np.ndarray:
        """Decode all into a new array."""
        out = np.empty_like(self._like)
        self._library.bare_decode(
            *(self._pointers, len(self._chunks), self._chunk_nbytes),
            *(out.nbytes, out.ctypes.data, nthreads),
        )
        return out

    def decode_chunk(self, index: int, out: np.ndarray) -> None:
        """Decode one whole chunk into `out`, of its size."""
        pointer = ctypes.byref(self._pointers, index * ctypes.sizeof(ctypes.c_char_p))
        self._library.bare_decode(pointer, 1, out.nbytes, out.nbytes, out.ctypes.data, 1)

    def decode_row(self, row: int) -> np.ndarray:
        """Decode one row into a new array, only the Blosc blocks it lies in."""
        out = np.empty(self._like.shape[1:], self._like.dtype)
        index, start = divmod(row * out.nbytes, self._chunk_nbytes)
        self._library.bare_items(
            self._chunks[index], start // out.itemsize, out.size, out.nbytes, out.ctypes.data
        )
        return out
