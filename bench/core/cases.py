"""Cases: reading one chunk of a large file by its index, packing and unpacking small arrays."""

import os
from functools import partial

import blosc
import numpy as np
from peers.formats import chunk_places
from race.races import Benchmark, Case, Races, require, require_equal
from race.timing import BARE, OURS, Call, Loop, loop_of, signal

import bloscpack as bp
from bloscpack.array import arraymetadata
from bloscpack.original import pack as packing

_NREAD = 16  # chunks of a call
_CODEC, _LEVEL = "blosclz", 7  # the defaults of bloscpack 0.16
# Arrays that are packed: their size in words and in bytes, and whether to clear the caches of
# metadata before each call.
_PACKED = (
    ("1 KiB", 1 << 10, False),
    ("1 KiB, new shape,", 1 << 10, True),
    ("80 KB", 80_000, False),
)

# How much is done: in a full run, and in a try.
SETTINGS = {
    "nbytes": (128_000_000, 4_000_000),  # of the large arrays
    "nrounds": (9, 2),
}


class Core(Races):
    """Races of bloscpack, C-Blosc through python-blosc, and bloscpack 0.16."""

    folder_name = "core"

    def make_data(self) -> None:
        self.start_original()
        blosc.set_nthreads(1)
        blosc.set_releasegil(False)


def race_chunks(races: Core) -> None:
    """Read chunks spread evenly over a file, in an order that was shuffled once."""
    nbytes = races.setting.nbytes
    values = signal(nbytes, "float32")
    content = values.tobytes()
    for size in (1 << 20, 1 << 16):
        # Whole chunks only, so that every read is of the same size.
        spread = np.linspace(0, nbytes // size - 1, _NREAD).astype(int)
        indices = np.random.default_rng(2).permutation(spread).tolist()
        wanted = [content[index * size :][:size] for index in indices]
        for codec in ("lz4", "zstd"):
            path = races.folder / f"{size}, {codec}.blp"
            bp.save(path, values, chunks=size // values.itemsize, codec=codec)
            places = [chunk_places(path)[index] for index in indices]
            with bp.open(path) as array, path.open("rb") as stream:
                loops = {
                    OURS: partial(_read_chunks, array, indices),
                    BARE: partial(_read_bare, stream.fileno(), places),
                }
                for name, call in loops.items():
                    require(call() == wanted, name, "a chunk")
                title = f"chunk of {size >> 10} KiB, {codec}"
                original = {"op": "chunks", "packed": path, "indices": indices}
                _hold(races, Case(title, title, size), loops, original, b"".join(wanted), _NREAD)


def _read_chunks(array: bp.Array, indices: list[int]) -> list[bytearray]:
    return [array.read_chunk(index) for index in indices]


def _read_bare(descriptor: int, places: list[tuple[int, int]]) -> list[bytes]:
    return [blosc.decompress(os.pread(descriptor, cbytes, at)) for at, cbytes in places]


def race_packed(work: str, races: Core) -> None:
    """Pack arrays to bytes, or unpack them."""
    args = bp.BloscArgs(cname=_CODEC, clevel=_LEVEL)
    for size, nbytes, is_first in _PACKED:
        array = signal(nbytes, "float64")
        pack = partial(bp.pack_ndarray_to_bytes, array, blosc_args=args)
        compress = partial(blosc.compress, array, array.itemsize, _LEVEL, blosc.SHUFFLE, _CODEC)
        unpack = partial(bp.unpack_ndarray_from_bytes, packed := pack())
        decompress = partial(blosc.decompress, compress())
        require_equal(unpack(), array, OURS, "the array")
        require(decompress() == array.tobytes(), BARE, "the array")
        if work == "pack":
            ours, bare, source = pack, compress, races.folder / "array.npy"
            np.save(source, array)
            original = {"array": source, "codec": _CODEC, "clevel": _LEVEL}
        else:
            ours, bare, source = unpack, decompress, races.folder / "array.blp"
            source.write_bytes(packed)
            original = {"packed": source}
        title = f"{work} {size} float64 {_CODEC}-{_LEVEL}"
        loops = {OURS: _uncached(ours) if is_first else ours, BARE: bare}
        _hold(races, Case(title, title, nbytes), loops, {"op": work, **original}, array)


def _uncached(call: Call) -> Call:
    """Return a call that clears the caches of metadata first."""

    def clear_and_call() -> None:
        arraymetadata._describe_stored.cache_clear()
        packing._array_section.cache_clear()
        call()

    return clear_and_call


def _hold(
    races: Core,
    case: Case,
    calls: dict[str, Call],
    original: dict,
    wanted: object,
    per_call: int = 1,
) -> None:
    """Race checked calls with the original, whose result must have the bytes of `wanted`."""
    loops: dict[str, Loop] = {name: loop_of(call) for name, call in calls.items()}
    races.hold(case, loops | races.loop_of_original(wanted=wanted, **original), per_call)


BENCHMARK = Benchmark(
    Core,
    {"chunk": race_chunks, **{work: partial(race_packed, work) for work in ("pack", "unpack")}},
    SETTINGS,
)
