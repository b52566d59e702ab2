"""Cases: files that change, and reading one that has."""

from functools import partial
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import numpy as np
from race.races import Case, remove, require_equal, size_of
from race.timing import OURS, Loop, cycling, loop_of, timed_loop

import bloscpack as bp
from peers.arrays import Arrays
from peers.contenders import Contender
from peers.data import LZ4_SMALL, ROW_NBYTES, Spec
from peers.formats import Ours

NITEMS, NCHANGED = 20_000, 1_000  # float64: of the array, and in a commit
_COMMITS = Spec("lz4", 5, NITEMS, "one chunk")
_PER_CALL = 32
CHANGED, COMPACTED = f"{OURS}, changed", f"{OURS}, compacted"


def race_changes(races: Arrays) -> None:
    """Change items and rows, and read a file that was changed often."""
    _race_commits(races)
    _race_rows(races)
    _race_changed(races)


def _race_commits(races: Arrays) -> None:
    """Change random items and make them durable, many times."""
    rng = np.random.default_rng(8)
    array, ncommits = rng.normal(size=NITEMS), races.setting.ncommits
    places = [np.sort(rng.permutation(NITEMS)[:NCHANGED]) for _ in range(ncommits)]
    values = [rng.normal(size=NCHANGED) for _ in places]
    wanted = array.copy()
    for where, some in zip(places, values, strict=True):
        wanted[where] = some
    case = Case("commits", f"{NCHANGED:,} random items of {NITEMS:,}, durable", 0)
    sizes = races.found.setdefault("changed sizes", {})

    def prepare(contender: Contender) -> dict[str, Loop]:
        if not contender.is_durable:
            raise NotImplementedError("it does not sync")
        path = races.folder / f"commits, {contender.name}"

        def renew() -> None:
            remove(path)
            contender.write(path, array, _COMMITS)

        def change() -> None:
            with contender.changer(path) as (handle, commit):
                for where, some in zip(places, values, strict=True):
                    handle()[where] = some
                    commit()

        renew()
        change()
        require_equal(contender.read(path), wanted, contender.name, "the changed array")
        sizes[contender.name] = size_of(path)
        return {contender.name: timed_loop(change, renew)}

    races.race(case, prepare, None, ncommits, is_plain=True)


def _race_rows(races: Arrays) -> None:
    """Open a file, change random rows, close it."""
    rng = np.random.default_rng(9)
    rows = [*map(int, rng.permutation(len(races.array))[: len(races.array) // 32])]
    values = rng.permutation(races.array[rows])
    wanted = races.array.copy()
    wanted[rows] = values
    case = Case(f"change/{LZ4_SMALL}", f"change a random row, {LZ4_SMALL}", ROW_NBYTES)

    def prepare(contender: Contender) -> dict[str, Loop]:
        pristine = races.path_of(contender, LZ4_SMALL)
        path = races.memory_folder / f"change, {contender.name}"

        def renew() -> None:
            remove(path)
            (copytree if pristine.is_dir() else copyfile)(pristine, path)

        def change() -> None:
            with contender.changer(path) as (handle, _):
                for row, value in zip(rows, values, strict=True):
                    handle()[row] = value

        renew()
        change()
        require_equal(contender.read(path), wanted, contender.name, "the changed array")
        return {contender.name: timed_loop(change, renew, lambda: remove(path))}

    races.race(case, prepare, None, len(rows), is_plain=True)


def _race_changed(races: Arrays) -> None:
    """Read our file after many commits, and after `compact`."""
    rng = np.random.default_rng(10)
    paths = {CHANGED: races.folder / "changed", COMPACTED: races.folder / "compacted"}
    array = races.array.copy()
    Ours().write(paths[CHANGED], array, LZ4_SMALL)
    with bp.open(paths[CHANGED], "r+") as handle:
        for row in rng.integers(0, len(array), 10 * races.setting.ncommits):
            handle[row] = array[row] = rng.permutation(array[row])
            handle.flush()
    copyfile(paths[CHANGED], paths[COMPACTED])
    bp.compact(paths[COMPACTED])
    rows = [*map(int, rng.permutation(len(array))[:1000])]

    def opening(path: Path) -> None:
        with bp.open(path):
            pass

    def race(key: str, title: str, nbytes: int, loops: dict[str, Any], per_call: int = 1) -> None:
        calls = {name: loop_of(call) for name, call in loops.items()}
        races.hold(Case(f"changed/{key}", f"{title}, {LZ4_SMALL}", nbytes), calls, per_call)

    handles = {}
    for name, path in paths.items():
        require_equal(bp.load(path), array, name, "the array")
        handles[name] = races.closing.enter_context(bp.open(path))
        require_equal(handles[name][:], array, name, "the array")
    race("whole", "whole", array.nbytes, {k: partial(bp.load, path) for k, path in paths.items()})
    gets = {k: cycling(one.__getitem__, rows, _PER_CALL) for k, one in handles.items()}
    race("row", "random row", ROW_NBYTES, gets, _PER_CALL)
    race("open", "open", 0, {k: partial(opening, path) for k, path in paths.items()})
