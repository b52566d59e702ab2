"""Cases: the run with its files, opening, and appending."""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from shutil import copyfile, copytree

import numpy as np
from race.page import surroundings
from race.races import (
    Benchmark,
    Case,
    Races,
    file_system,
    folder_in_memory,
    remove,
    require,
    require_equal,
)
from race.timing import BARE, OURS, Loop, loop_of, timed_loop

import bloscpack as bp
from peers.bare import BareDecoder, NoBareError, build
from peers.contenders import TABLE, Contender
from peers.damage import damage_files
from peers.data import FULL, GENERATOR, QUICK, SPECS, ZSTD, ZSTD_SMALL, Spec
from peers.data import field as make_field
from peers.memory import measure_memory
from peers.parts import race_parts
from peers.whole import race_whole
from peers.with_bloscpack import Ours, chunk_places, stored_chunks

_NCHUNKS = 1000
_NAPPENDED = 16  # chunks before
_TINY_NITEMS = 4  # float32 in a chunk of the file of very many


class Arrays(Races):
    """Races over files of one array, with C-Blosc alone and bloscpack 0.16 where they are there.

    Attributes
    ----------
    array : ndarray
        The stored array.
    on_disk : bool
        Whether `folder` and `memory_folder` are on different file systems.
    """

    folder_name, table = "peers", TABLE

    def make_data(self) -> None:
        in_memory = folder_in_memory()
        self.on_disk = in_memory is not None and in_memory not in self.folder.resolve().parents
        self.array = make_field(self.setting.nrows)
        self._written = cache(self._write)
        self.chunks_of = cache(self._chunks)
        self.start_original()
        if self.original is not None:
            np.save(self.folder / "array.npy", self.array)
        try:
            self.library = build(self.folder)
        except NoBareError as err:
            self.library = None
            self.absent[BARE] = str(err)

    def about(self) -> dict[str, str]:
        about = surroundings(self)
        about["array"] = f"{self.array.nbytes / 1e6:g} MB {GENERATOR}"
        about["chunks"] = "; ".join(map(self._stored, SPECS))
        memory = f"; 'in memory': {file_system(self.memory_folder)}" if self.on_disk else ""
        about["files"] = f"{file_system(self.folder)}, in the page cache{memory}"
        setting = self.setting
        about["rounds"] = f"{setting.nrounds}, or {setting.nrounds_of_parts} of small parts"
        return about

    def _stored(self, spec: Spec) -> str:
        cbytes = sum(size for _, size in chunk_places(self.path_of(Ours(), spec)))
        return (
            f"{spec} ({spec.chunk_rows} rows): stored {self.array.nbytes / cbytes:.2f} times "
            f"smaller, Blosc blocks of {self.blocksize(spec):,} bytes"
        )

    def path_of(self, contender: Contender, spec: Spec, nrows: int | None = None) -> Path:
        """Return the file of a contender with all or the first rows, written once."""
        return self._written(contender.name, spec, len(self.array) if nrows is None else nrows)

    def _write(self, name: str, spec: Spec, nrows: int) -> Path:
        path = self.folder / f"{name}, {spec}, {nrows} rows"
        self.named(name).write(path, self.array[:nrows], spec)
        return path

    def _chunks(self, spec: Spec) -> list[bytes]:
        """Return the Blosc chunks of our file."""
        return stored_chunks(self.path_of(Ours(), spec))

    def decoder(self, spec: Spec, chunks: Iterable[memoryview] | None = None) -> BareDecoder | None:
        """Return C-Blosc for chunks of the array, by default those of our file."""
        if self.library is None:
            return None
        stored = self.chunks_of(spec) if chunks is None else [*map(bytes, chunks)]
        return BareDecoder(self.library, stored, self.array, spec.chunk_nbytes)

    def blocksize(self, spec: Spec) -> int:
        """Return the size of Blosc blocks in our file."""
        return int.from_bytes(self.chunks_of(spec)[0][8:12], "little")

    def race(
        self,
        case: Case,
        prepare: Callable[[Contender], dict[str, Loop]],
        others: dict[str, Loop],
        per_call: int = 1,
        *,
        is_plain: bool = False,
        is_part: bool = False,
    ) -> None:
        """Race the contenders, and others.

        Parameters
        ----------
        case : Case
            Without results.
        prepare : callable
            Returns the loops of a contender, after checking their results.
        others : dict of str to Loop
            C-Blosc and the original.
        per_call : int
            How many of the things that are timed a call does.
        is_plain : bool
            Without contenders that only add a checksum to another one.
        is_part : bool
            Whether a call handles a small part of a file, in microseconds.
        """
        loops: dict[str, Loop] = {}
        for contender in self.contenders:
            if is_plain and contender.is_variant:
                case.skipped[contender.name] = "not run"
                continue
            try:
                loops.update(prepare(contender))
            except NotImplementedError as err:
                case.skipped[contender.name] = str(err)
        setting = self.setting
        nrounds = setting.nrounds_of_parts if is_part else setting.nrounds
        self.hold(case, loops | others, per_call, nrounds)


def race_files(races: Arrays) -> None:
    """Open files, and append to them."""
    _race_open(races)
    _race_shape(races)
    _race_append(races, races.folder, "")
    if races.on_disk:
        _race_append(races, races.memory_folder, " in memory")


def _race_open(races: Arrays) -> None:
    """Open a file of 1,000 chunks of 64 KB and close it; ours also one of a million tiny chunks."""
    nrows = min(_NCHUNKS * ZSTD_SMALL.chunk_rows, len(races.array))
    nchunks = -(-nrows // ZSTD_SMALL.chunk_rows)
    case = Case("open", f"open a file of {nchunks:,} chunks", 0)

    def opening(contender: Contender, path: Path) -> Loop:
        def call() -> None:
            with contender.open(path):
                pass

        return loop_of(call)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = races.path_of(contender, ZSTD_SMALL, nrows)
        loops = {contender.name: opening(contender, path)}
        if contender.name == OURS:
            loops[tiny_name(races.setting.ntiny)] = opening(contender, _write_tiny(races))
        return loops

    races.race(case, prepare, {}, is_plain=True, is_part=True)


def _write_tiny(races: Arrays) -> Path:
    """Return our file of very many chunks of 16 bytes."""
    ntiny = races.setting.ntiny
    path = races.folder / "tiny"
    values = np.arange(ntiny * _TINY_NITEMS, dtype=np.float32).reshape(ntiny, _TINY_NITEMS)
    bp.save(path, values, chunks=1, codec="lz4", clevel=0)
    with bp.open(path) as array:
        require(array.nchunks == ntiny, OURS, "the number of chunks")
        require_equal(array[-1], values[-1], OURS, "the last row")
    return path


def tiny_name(ntiny: int) -> str:
    """Return the label of opening the file of very many chunks."""
    return f"{OURS}, {ntiny:,} chunks"


def _race_shape(races: Arrays) -> None:
    """Open a file that cannot grow, read the shape of its array, close it."""
    nrows = min(_NAPPENDED * ZSTD.chunk_rows, len(races.array))
    case = Case("shape", "open a file of fixed size, read its shape", 0)

    def prepare(contender: Contender) -> dict[str, Loop]:
        path = races.folder / f"fixed, {contender.name}"
        contender.write_fixed(path, races.array[:nrows], ZSTD)

        def shape() -> tuple[int, ...]:
            with contender.open(path) as handle:
                return tuple(handle.shape)

        require(shape() == (nrows, *races.array.shape[1:]), contender.name, "the shape")
        return {contender.name: loop_of(shape)}

    races.race(case, prepare, {}, is_plain=True, is_part=True)
    for entry in races.folder.glob("fixed, *"):
        remove(entry)


def _race_append(races: Arrays, folder: Path, where: str) -> None:
    """Open a file, append 1 MiB, close it."""
    nrows = min(_NAPPENDED * ZSTD.chunk_rows, len(races.array) - ZSTD.chunk_rows)
    rows = races.array[nrows : nrows + ZSTD.chunk_rows]
    wanted = races.array[: nrows + ZSTD.chunk_rows]
    case = Case(f"append{where}", f"open, append 1 MiB, close{where}, {ZSTD}", rows.nbytes)

    def prepare(contender: Contender) -> dict[str, Loop]:
        if not contender.can_grow:
            raise NotImplementedError("it cannot append")
        pristine = races.path_of(contender, ZSTD, nrows)
        path = folder / f"append, {contender.name}"

        def renew() -> None:
            remove(path)
            (copytree if pristine.is_dir() else copyfile)(pristine, path)

        def append() -> None:
            with contender.appender(path) as append_rows:
                append_rows(rows)

        renew()
        append()
        require_equal(contender.read(path), wanted, contender.name, "the grown array")
        return {contender.name: timed_loop(append, renew)}

    races.race(case, prepare, {}, is_plain=True)
    for entry in folder.glob("append, *"):
        remove(entry)


BENCHMARK = Benchmark(
    Arrays,
    {
        "whole": race_whole,
        "parts": race_parts,
        "files": race_files,
        "memory": measure_memory,
        "damage": damage_files,
    },
    FULL,
    QUICK,
    always=Ours.name,
)
