"""Cases: one chunk of a large file by its index, packing and unpacking, and small calls."""

import io
import os
from functools import partial
from pathlib import Path

import blosc
import numpy as np
from peers.data import field
from peers.formats import chunk_places, stored_chunks
from race.races import Benchmark, Case, Races, random_places, require, require_equal
from race.timing import BARE, OURS, Call, Loop, cycling, loop_of, signal

import bloscpack as bp
from bloscpack.array import arraymetadata
from bloscpack.format.codec import decode_range_into
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

# Column of the calls that a small call cannot do without.
NEEDED = "needed"

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


def race_small(races: Core) -> None:
    """Save 512 bytes, and read an item or a column, beside the calls that each needs."""
    array = signal(512, "float64")

    def hold(work: str, needs: str, ours: Call, needed: Call, per_call: int = 1) -> None:
        loops = {OURS: loop_of(ours), NEEDED: loop_of(needed)}
        races.hold(Case(f"small {work} / {needs}", work, 0), loops, per_call)

    def save(place: Path) -> Call:
        return lambda: bp.save(place / "array.blp", array)

    def save_by_numpy(place: Path, syncs_folder: bool = True) -> Call:
        return partial(_save_by_numpy, place, array, syncs_folder=syncs_folder)

    disk, memory = races.folder, races.memory_folder
    durably = "`np.save`, fsync, rename, fsync of the folder"
    hold(
        *("save 512 bytes to memory", "`np.save`"),
        *(lambda: bp.save(io.BytesIO(), array), lambda: np.save(io.BytesIO(), array)),
    )
    hold("save 512 bytes, tmpfs", durably, save(memory), save_by_numpy(memory))
    hold("save 512 bytes, disk", durably, save(disk), save_by_numpy(disk))
    hold(
        *("save 512 bytes, disk", "`np.save`, fsync, rename: the name can be lost"),
        *(save(disk), save_by_numpy(disk, syncs_folder=False)),
    )
    require_equal(bp.load(disk / "array.blp"), array, OURS, "the array")
    values = field(races.setting.nbytes // 4000)
    path = disk / "field.blp"
    bp.save(path, values)
    chunks, step = stored_chunks(path), 262
    rows, columns = random_places(3, *values.shape)
    places = list(zip(rows, columns, strict=True))
    item = memoryview(bytearray(4))

    def decode_item(place: tuple[int, int]) -> None:
        index, row = divmod(place[0], step)
        decode_range_into(chunks[index], 4 * (row * values.shape[1] + place[1]), item)

    with bp.open(path) as opened:
        for at in (*range(0, len(values), step), *places):  # all chunks are verified then
            require(opened[at].tolist() == values[at].tolist(), OURS, "an item or row")
        hold(
            *("item `a[i, j]` of a chunk that was verified", "decoding it from its block"),
            *(cycling(opened.__getitem__, places, 16), cycling(decode_item, places, 16), 16),
        )
    for width in (1000, 32_768):
        wide = np.resize(values, (1000, width))
        bp.save(path, wide)
        with bp.open(path) as opened:
            require_equal(opened[:, width // 2], wide[:, width // 2], OURS, "a column")
            hold(
                *(f"column of 1,000 rows of {4 * width:,} bytes", "decoding everything"),
                *(partial(opened.__getitem__, np.s_[:, width // 2]), opened.read),
            )


def _save_by_numpy(folder: Path, array: np.ndarray, *, syncs_folder: bool) -> None:
    """Save an array so that its file is whole or absent, as `bp.save` does."""
    temporary = folder / "array.tmp"
    with temporary.open("wb") as stream:
        np.save(stream, array)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(folder / "array.npy")
    if syncs_folder:
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


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
    {
        "chunk": race_chunks,
        **{work: partial(race_packed, work) for work in ("pack", "unpack")},
        "small": race_small,
    },
    SETTINGS,
)
