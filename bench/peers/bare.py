"""C-Blosc alone, compiled from bare.c against the same static library as our kernels.

It decodes from memory and encodes to memory with as many threads as everyone has, and writes with
plain writes. It is the limit, not a peer: it checks nothing, and its files have no header.
"""

import ctypes
import os
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from race.timing import NTHREADS

from peers.contenders import Contender
from peers.data import ROW_NBYTES, ROW_NITEMS, Spec
from peers.formats import Ours, stored_chunks

_MAX_OVERHEAD = 16  # BLOSC_MAX_OVERHEAD: the most bytes by which a chunk exceeds its content
_IOV_MAX = 1024


def build() -> ctypes.CDLL:
    """Compile bare.c and load it.

    Raises
    ------
    ImportError
        The compiler or the library to link is missing.
    """
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    found = {entry.name: Path(str(entry.locate())).resolve() for entry in files("blosc") or []}
    if "libblosc.a" not in found or "blosc.h" not in found:
        raise ImportError("the installed 'blosc' package carries no libblosc.a")
    with TemporaryDirectory() as folder:
        target = Path(folder) / "bare.so"
        command = [*compiler[:1], "-O3", "-shared", "-fPIC", "-pthread", "-o", target]
        command += ["-I", found["blosc.h"].parent, Path(__file__).with_name("bare.c")]
        command += [found["libblosc.a"], "-Wl,--exclude-libs,ALL"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        except subprocess.CalledProcessError as err:
            raise ImportError(f"{compiler[0]} failed: {err.stderr.strip()[-300:]}") from err
        except OSError as err:
            raise ImportError(f"cannot run the compiler: {err}") from err
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


class Bare(Contender):
    """C-Blosc alone: its files are chunks one after the other, which it decodes from memory.

    Attributes
    ----------
    has_our_blocks : bool
        Whether Blosc blocks are as large as in our file, or of C-Blosc's own choice.
    """

    note = "the codec alone, from and to memory, with the chunks and blocks of our file"
    libraries = "C-Blosc of python-blosc {blosc}"
    works = ("read", "write", "threads", "row", "first")
    has_our_blocks = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._library = build()
        self._encoder: tuple[Any, BareEncoder] | None = None
        self._decoders: dict[Path, BareDecoder] = {}

    def write(self, path: Path, array: np.ndarray, spec: Spec) -> None:
        """Compress into memory that is kept for the next time, and write the chunks."""
        key = array.ctypes.data, len(array), spec
        if self._encoder is None or self._encoder[0] != key:
            wanted = _our_blocksize(path, array, spec) if self.has_our_blocks else 0
            encoder = BareEncoder(self._library, array, spec, wanted)
            if wanted and _blocksize(encoder.encode(NTHREADS)[0]) != wanted:
                # Where C-Blosc splits blocks, it multiplies the size by that of an item.
                split = wanted // array.itemsize
                encoder = BareEncoder(self._library, array, spec, split)
            self._encoder = key, encoder
        self._encoder[1].write(path, NTHREADS)
        self._decoders.pop(path, None)

    def read(self, path: Path, nthreads: int | None = None) -> np.ndarray:
        return self._decoder(path).decode(nthreads or NTHREADS)

    @contextmanager
    def open(self, path: Path) -> Iterator["_Handle"]:
        yield _Handle(self._decoder(path))

    def _decoder(self, path: Path) -> "BareDecoder":
        if path not in self._decoders:
            self._decoders[path] = BareDecoder(self._library, path.read_bytes())
        return self._decoders[path]


def _our_blocksize(path: Path, array: np.ndarray, spec: Spec) -> int:
    """Return the size of Blosc blocks in our file of an array."""
    ours = path.with_name("blocks of our file")
    Ours().write(ours, array, spec)  # the whole: the size depends on the number of chunks
    chunk = stored_chunks(ours)[0]
    ours.unlink()
    return _blocksize(chunk)


def _blocksize(chunk: bytes | memoryview) -> int:
    return int.from_bytes(chunk[8:12], "little")


class _Handle:
    """Rows of chunks in memory: the first row of a chunk decodes all of it, others their blocks."""

    def __init__(self, decoder: "BareDecoder") -> None:
        self._decoder = decoder
        self._seen: set[int] = set()
        self._chunk = np.empty((decoder.chunk_nbytes // ROW_NBYTES, ROW_NITEMS), np.float32)

    def __getitem__(self, row: int) -> np.ndarray:
        index, inside = divmod(row, len(self._chunk))
        if index in self._seen:
            return self._decoder.decode_row(row)
        self._seen.add(index)
        chunk = self._chunk[: self._decoder.nrows - index * len(self._chunk)]
        self._decoder.decode_chunk(index, chunk)
        return chunk[inside].copy()


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
    """Decodes a file of chunks in memory, all or a part, into new arrays."""

    def __init__(self, library: ctypes.CDLL, content: bytes) -> None:
        self._library = library
        self._chunks: list[bytes] = []
        at = nbytes = 0
        while at < len(content):
            nbytes += int.from_bytes(content[at + 4 : at + 8], "little")
            cbytes = int.from_bytes(content[at + 12 : at + 16], "little")
            self._chunks.append(content[at : at + cbytes])
            at += cbytes
        self._pointers = (ctypes.c_char_p * len(self._chunks))(*self._chunks)
        self.chunk_nbytes = int.from_bytes(content[4:8], "little")
        self.nrows = nbytes // ROW_NBYTES

    def decode(self, nthreads: int) -> np.ndarray:
        """Decode all into a new array."""
        out = np.empty((self.nrows, ROW_NITEMS), np.float32)
        self._library.bare_decode(
            *(self._pointers, len(self._chunks), self.chunk_nbytes),
            *(out.nbytes, out.ctypes.data, nthreads),
        )
        return out

    def decode_chunk(self, index: int, out: np.ndarray) -> None:
        """Decode one whole chunk into `out`, of its size."""
        pointer = ctypes.byref(self._pointers, index * ctypes.sizeof(ctypes.c_char_p))
        self._library.bare_decode(pointer, 1, out.nbytes, out.nbytes, out.ctypes.data, 1)

    def decode_row(self, row: int) -> np.ndarray:
        """Decode one row into a new array, only the Blosc blocks it lies in."""
        out = np.empty(ROW_NITEMS, np.float32)
        index, start = divmod(row * out.nbytes, self.chunk_nbytes)
        self._library.bare_items(
            self._chunks[index], start // out.itemsize, out.size, out.nbytes, out.ctypes.data
        )
        return out
