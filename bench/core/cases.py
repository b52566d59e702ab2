"""Cases: reading one chunk of a large file by its index, packing and unpacking arrays."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import blosc
import numpy as np
from peers.with_bloscpack import chunk_places
from race.page import surroundings
from race.races import Benchmark, Case, Races, require, require_equal
from race.timing import BARE, NTHREADS, OURS, Call, Loop, loop_of, signal

import bloscpack as bp
from bloscpack.array import arraymetadata
from bloscpack.original import pack as packing

_CHUNK_NBYTES = 1 << 20  # the default of bloscpack 0.16
_NREAD = 16  # chunks of a call
WORK = ("chunk", "pack", "unpack")


@dataclass(frozen=True, slots=True)
class Setting:
    """How much is done; by default a full run."""

    nbytes: int = 128_000_000  # of the large arrays
    nrounds: int | None = None  # 21, or 7 where a call takes long


FULL, QUICK = Setting(), Setting(nbytes=4_000_000, nrounds=2)


class Core(Races):
    """Races of bloscpack, C-Blosc through python-blosc, and bloscpack 0.16."""

    folder_name = "core"

    def make_data(self) -> None:
        self.start_original()

    def about(self) -> dict[str, str]:
        return surroundings(self)


@dataclass(frozen=True, slots=True)
class Task:
    """A race; `enter` checks the results of all contenders and returns their loops."""

    title: str
    nbytes: int  # of one thing
    enter: Callable[[Core], dict[str, Loop]]
    per_call: int = 1  # things


@dataclass(frozen=True, slots=True)
class Spec:
    """An array and how it is packed."""

    size: str  # in words
    nbytes: int
    dtype: str = "float32"
    codec: str = "blosclz"
    clevel: int = 7
    is_first: bool = False  # clear the caches of metadata before each call

    def __str__(self) -> str:
        return f"{self.size} {self.dtype} {self.codec}-{self.clevel}"

    def loop(self, call: Call) -> Loop:
        """Return the loop of our `call`."""

        def clear_and_call() -> None:
            arraymetadata._describe_stored.cache_clear()
            packing._array_section.cache_clear()
            call()

        return loop_of(clear_and_call if self.is_first else call)


def tasks_of(work: str, setting: Setting) -> Iterator[Task]:
    """Yield the races of a kind of work."""
    if work == "chunk":
        for size in (1 << 20, 1 << 16):
            for codec in ("lz4", "zstd"):
                task = partial(_chunk, setting.nbytes, size, codec)
                yield Task(f"chunk of {size >> 10} KiB, {codec}", size, task, _NREAD)
        return
    large = f"{setting.nbytes / 1e6:g} MB", setting.nbytes
    enter = _pack if work == "pack" else _unpack
    # The sizes at which the call, the codec and the memory count.
    for spec in (
        Spec("1 KiB", 1 << 10, "float64"),
        Spec("1 KiB, new shape,", 1 << 10, "float64", is_first=True),
        Spec("80 KB", 80_000, "float64"),
        Spec(*large),
        Spec(*large, codec="lz4", clevel=5),
        Spec(*large, codec="zstd", clevel=3),
    ):
        yield Task(f"{work} {spec}", spec.nbytes, partial(enter, spec))


def _chunk(nbytes: int, size: int, codec: str, races: Core) -> dict[str, Loop]:
    """Read chunks spread evenly over a file, in an order that was shuffled once."""
    values = signal(nbytes, "float32")
    path = races.folder / f"{size}, {codec}.blp"
    bp.save(path, values, chunks=size // values.itemsize, codec=codec)
    array = races.closing.enter_context(bp.open(path))
    # Whole chunks only, so that every read is of the same size.
    spread = np.linspace(0, nbytes // size - 1, _NREAD).astype(int)
    indices = np.random.default_rng(2).permutation(spread).tolist()
    places = [chunk_places(path)[index] for index in indices]
    fd = races.closing.enter_context(path.open("rb")).fileno()
    _pool_for()  # one thread

    def read() -> list[bytearray]:
        return [array.read_chunk(index) for index in indices]

    def read_bare() -> list[bytes]:
        return [blosc.decompress(os.pread(fd, cbytes, at)) for at, cbytes in places]

    content = values.tobytes()
    wanted = [content[index * size :][:size] for index in indices]
    for name, found in ((OURS, read()), (BARE, read_bare())):
        require(found == wanted, name, "a chunk")
    loops = {OURS: loop_of(read), BARE: loop_of(read_bare)}
    return loops | races.loop_of_original("chunks", b"".join(wanted), packed=path, indices=indices)


def _pack(spec: Spec, races: Core) -> dict[str, Loop]:
    """Pack an array to bytes."""
    array, args = (
        signal(spec.nbytes, spec.dtype),
        bp.BloscArgs(cname=spec.codec, clevel=spec.clevel),
    )

    def pack() -> bytes:
        return bp.pack_ndarray_to_bytes(array, blosc_args=args)

    require_equal(bp.unpack_ndarray_from_bytes(pack()), array, OURS, "the array")
    compress = _compress_call(array, spec)
    require(b"".join(map(blosc.decompress, compress())) == array.tobytes(), BARE, "the array")
    source = races.folder / "array.npy"
    np.save(source, array)
    codec = {"codec": spec.codec, "clevel": spec.clevel}
    original = races.loop_of_original("pack", array, array=source, **codec)
    return {OURS: spec.loop(pack), BARE: loop_of(compress)} | original


def _unpack(spec: Spec, races: Core) -> dict[str, Loop]:
    """Unpack an array from bytes."""
    array = signal(spec.nbytes, spec.dtype)
    packed = bp.pack_ndarray_to_bytes(
        array, blosc_args=bp.BloscArgs(cname=spec.codec, clevel=spec.clevel)
    )

    def unpack() -> np.ndarray:
        return bp.unpack_ndarray_from_bytes(packed)

    require_equal(unpack(), array, OURS, "the array")
    decompress = _decompress_call(_compress_call(array, spec)(), array)
    require(bytes(decompress()) == array.tobytes(), BARE, "the array")
    source = races.folder / "array.blp"
    source.write_bytes(packed)
    original = races.loop_of_original("unpack", array, packed=source)
    return {OURS: spec.loop(unpack), BARE: loop_of(decompress)} | original


def _compress_call(array: np.ndarray, spec: Spec) -> Callable[[], list[bytes]]:
    """Return the call of C-Blosc that compresses an array chunk by chunk, with byte shuffle."""
    view = memoryview(array.reshape(-1).view(np.uint8))
    chunks = [view[at : at + _CHUNK_NBYTES] for at in range(0, len(view), _CHUNK_NBYTES)]

    def compress(chunk: memoryview) -> bytes:
        return blosc.compress(chunk, array.itemsize, spec.clevel, blosc.SHUFFLE, spec.codec)

    if (pool := _pool_for(chunks)) is None:
        return lambda: [compress(chunks[0])]
    return lambda: list(pool.map(compress, chunks))


def _decompress_call(chunks: list[bytes], like: np.ndarray) -> Callable[[], bytes | np.ndarray]:
    """Return the call of C-Blosc that decompresses chunks; several into a new array."""
    if (pool := _pool_for(chunks)) is None:
        return lambda: blosc.decompress(chunks[0])

    def decompress() -> np.ndarray:
        out = np.empty_like(like)
        base = out.ctypes.data
        addresses = range(base, base + out.nbytes, _CHUNK_NBYTES)
        list(pool.map(blosc.decompress_ptr, chunks, addresses))
        return out

    return decompress


def _pool_for(chunks: Sequence[object] = ()) -> ThreadPoolExecutor | None:
    """Return threads for several chunks: faster than those of C-Blosc, which share a chunk."""
    blosc.set_nthreads(1)
    blosc.set_releasegil(len(chunks) > 1)
    return ThreadPoolExecutor(NTHREADS) if len(chunks) > 1 else None


def _race(work: str, races: Core) -> None:
    for task in tasks_of(work, races.setting):
        case = Case(task.title, task.title, task.nbytes)
        races.hold(case, task.enter(races), task.per_call)


BENCHMARK = Benchmark(Core, {work: partial(_race, work) for work in WORK}, FULL, QUICK)
