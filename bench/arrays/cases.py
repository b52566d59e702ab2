"""Cases: whole arrays by every contender, and parts of arrays."""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from race.races import Benchmark, Case, Races, file_system, remove, require
from race.timing import OURS, cycling, loop_of, timed_loop

import bloscpack as bp
from arrays.contenders import AUTO, CUBE, TABLE
from arrays.data import SETTINGS, make_cube, make_samples

_SEED = 19
_MAX_ROW_NBYTES = 1 << 15
_PER_CALL = 16
_IO = Path("/proc/self/io")


class Arrays(Races):
    """Races over many arrays, in files in memory where there is such a file system."""

    folder_name, table = "arrays", TABLE

    def make_data(self) -> None:
        self.samples = make_samples(self.setting)
        self.found |= {"arrays": {one.name: one.facts for one in self.samples}, "nread": {}}

    def about(self) -> dict[str, str]:
        nmeasured = sum(one.is_measured for one in self.samples)
        return super().about() | {
            "arrays": f"{nmeasured} measured, {len(self.samples) - nmeasured} others",
            "files": file_system(self.memory_folder),
            "rounds": f"{self.setting.nrounds}, or {self.setting.nwrites} of writes",
        }

    def path(self, *words: object) -> Path:
        """Return the path of a file of these words."""
        return self.memory_folder / ", ".join(map(str, words))

    def clear(self) -> None:
        """Remove all files."""
        for entry in self.memory_folder.iterdir():
            remove(entry)


def require_same(found: Any, wanted: np.ndarray, who: str, what: str) -> None:
    """Stop the run unless an array has the bytes of another, NaN payloads and -0.0 included."""
    is_alike = (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    require(is_alike and found.tobytes() == wanted.tobytes(), who, what)


def race_whole(races: Arrays) -> None:
    """Write and read each array on one thread, by processor time, and find its size."""
    sizes: dict[str, dict[str, int]] = {}
    for sample in races.samples:
        reads, writes = {}, {}
        found = sizes[sample.name] = {}
        for one in races.contenders:
            if (array := one.suited(sample)) is None:
                continue
            path, again = races.path(one.name), races.path(one.name, "again")
            one.write(path, array)
            with one.open(path) as handle:
                require_same(one.read(handle, array), array, one.name, sample.name)
            found[one.name] = one.cbytes(path)
            reads[one.name] = one.reading(path, array)
            write, renew = partial(one.write, again, array), partial(remove, again)
            writes[one.name] = timed_loop(write, renew, clock=process_time)
        nbytes, nwrites = sample.array.nbytes, races.setting.nwrites
        races.hold(Case(f"read/{sample.name}", f"read {sample.name}", nbytes), reads)
        case = Case(f"write/{sample.name}", f"write {sample.name}", nbytes)
        races.hold(case, writes, nrounds=nwrites)
        races.clear()
    races.found["sizes"] = sizes


def race_parts(races: Arrays) -> None:
    """Read rows of the arrays and parts of a cube, through handles that have checked the chunks."""
    nplaces = races.setting.nplaces
    for sample in races.samples:
        array, row_nbytes = sample.array, sample.array[0].nbytes
        if array.nbytes >= 1 << 20 and row_nbytes <= _MAX_ROW_NBYTES:
            rows = np.random.default_rng(_SEED).integers(0, len(array), nplaces).tolist()
            case = Case(f"row/{sample.name}", f"{sample.name}, {row_nbytes:,} bytes", row_nbytes)
            _race_places(races, case, array, rows, (OURS, AUTO))
    cube, side = make_cube(races.setting.cube), races.setting.tile
    borders = np.subtract(cube.shape, (0, side, side))
    corners = np.random.default_rng(_SEED).integers(0, borders, (nplaces, 3)).tolist()
    tiles = [(z, slice(y, y + side), slice(x, x + side)) for z, y, x in corners]
    whole = slice(None)
    stacks = [(whole, *tile[1:]) for tile in tiles[: _PER_CALL // 4]]
    for access, key, title, places in (
        ("tiles", "tile", f"{side} x {side} of an image", tiles),
        ("tiles", "stack", f"{side} x {side} of all images", stacks),
        ("series", "series", "all images at a pixel", [(whole, y, x) for _, y, x in corners]),
    ):
        bp.save(races.path("zeros"), np.zeros_like(cube), chunks="auto", access=access)
        with bp.open(races.path("zeros")) as zeros:
            chunks = zeros.chunks
        title = f"{title}; chunks of {' x '.join(map(str, chunks))}"
        names = [one.name for one in races.contenders if CUBE in one.works]
        _race_places(races, Case(f"cube/{key}", title, 0), cube, places, names, chunks)
    races.clear()


def _race_places(
    races: Arrays,
    case: Case,
    array: np.ndarray,
    places: list[Any],
    names: Iterable[str],
    chunks: Any = None,
) -> None:
    """Read an array at these places; count the bytes that a read takes from the file."""
    loops, nread, per_call = {}, {}, min(_PER_CALL, len(places))
    with ExitStack() as stack:
        for one in (races.named(name) for name in names if races.has(name)):
            path = races.path(one.name, chunks or case.key.replace("/", " "))
            if not path.exists():
                one.write(path, array, chunks)
            handle = stack.enter_context(one.open(path))
            for place in places:
                require_same(handle[place], array[place], one.name, case.title)
            before = _bytes_read()
            for place in places:
                handle[place]
            nread[one.name] = (_bytes_read() - before) / len(places)
            loops[one.name] = loop_of(cycling(handle.__getitem__, places, per_call))
        races.hold(case, loops, per_call)
    races.found["nread"][case.key] = nread


def _bytes_read() -> int:
    """Return the bytes that this process has read by system calls; 0 where nothing counts them."""
    return int(_IO.read_text("ascii").split()[1]) if _IO.exists() else 0


WORK = {"whole": race_whole, "parts": race_parts}
BENCHMARK = Benchmark(Arrays, WORK, SETTINGS, (OURS,))
