"""Writers' operations on a file, and conditions that hold after any of them was stopped."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from bloscpack.append import append
from bloscpack.container.compact import compact_array

from .disk import Crash, StoppingDisk, installed, without_syncs

State = tuple[int, str] | None
"""Number of items, and the attrs as JSON; None without a file."""

# A chunk has 100 items: 400 bytes, which do not compress well, except to array chunks.
CHUNK = 100
# The same number of items is in a row of the grid, of three chunks.
GRID = 10, 4
# Offset of the offset table in a file of `packed`.
TABLE = 698
LONG = {"note": "".join(chr(48 + n * n % 61) for n in range(3000))}


def ramp(start: int, stop: int) -> Any:
    return (np.arange(start, stop, dtype="i4") * 2654435).view("i4")


def state(nitems: int, attrs: Any = None) -> State:
    return nitems, json.dumps(attrs or {})


@dataclass(frozen=True)
class Operation:
    """Operation on ``folder / "a.blp"``.

    Attributes
    ----------
    prepare, run : callable
        Write the old state; run the operation.
    allowed : list of State
        The old state, states after a flush, and the new state.
    repairs : bool
        The old state has damage outside of its data, which the operation repairs.
    """

    name: str
    prepare: Callable[[Path], object]
    run: Callable[[Path], object]
    allowed: list[State] = field(default_factory=list)
    repairs: bool = False

    def __str__(self) -> str:
        return self.name


def grid(items: Any) -> Any:
    """Return items as rows of ten, of which a chunk of `GRID` has a part."""
    return items.reshape(-1, 10)


def saved_grid(nitems: int, chunks: Any = GRID, **options: Any) -> Callable[[Path], None]:
    def prepare(path: Path) -> None:
        bp.save(path, grid(ramp(0, nitems)), chunks=chunks, **options)

    return prepare


def saved(nitems: int, **options: Any) -> Callable[[Path], None]:
    def prepare(path: Path) -> None:
        bp.save(path, ramp(0, nitems), chunks=CHUNK, **options)

    return prepare


def packed(nitems: int, spare: int) -> Callable[[Path], None]:
    """Write a file with functions of 0.16: no trailer, few spare entries in the table."""

    def prepare(path: Path) -> None:
        args = bp.BloscpackArgs(max_app_chunks=spare)
        bp.pack_ndarray_to_file(ramp(0, nitems), path, 4 * CHUNK, bloscpack_args=args)

    return prepare


def nothing(path: Path) -> None:
    assert not path.exists()


def appends(*stops: int, attrs: Any = None) -> Callable[[Path], None]:
    """Append up to each of `stops`, with a flush after each."""

    def run(path: Path) -> None:
        with bp.open(path, "a", nthreads=1) as a:
            for number, stop in enumerate(stops):
                if number:
                    a.flush()
                rows = ramp(a.size, stop)
                a.append(grid(rows) if a.ndim == 2 else rows)
            if attrs:
                a.update_attrs(attrs)

    return run


def writes(*stops: int, attrs: Any = None, **options: Any) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with bp.Writer(path, dtype="i4", chunks=CHUNK, nthreads=1, **options) as w:
            for number, stop in enumerate(stops):
                if number:
                    w.flush()
                for start in range(w.shape[0], stop, 70):
                    w.append(ramp(start, min(start + 70, stop)))
            if attrs:
                w.attrs = attrs

    return run


def writes_grid(*stops: int) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with bp.Writer(path, dtype="i4", shape=(None, 10), chunks=GRID, nthreads=1) as w:
            for number, stop in enumerate(stops):
                if number:
                    w.flush()
                for start in range(10 * w.shape[0], stop, 70):
                    w.append(grid(ramp(start, min(start + 70, stop))))

    return run


def crashed(path: Path, save: Callable[..., Callable[[Path], None]] = saved) -> None:
    """Leave a file of 250 items and its journal, like a writer that died in a flush."""
    save(250)(path)
    counting = StoppingDisk()
    with installed(counting):
        appends(720)(path)
    save(250)(path)
    # At this step everything is written, and the journal still exists.
    dying = StoppingDisk(counting.count - 2, "crash")
    with installed(dying), suppress(Crash):
        appends(720)(path)
    assert path.with_name("a.blp.journal").exists()


def changes(*factors: int, stop: int = 0, keep: int | None = None) -> Callable[[Path], None]:
    """Multiply all items, one commit for each factor, and change the number of items at the end."""

    def run(path: Path) -> None:
        with bp.open(path, "r+", nthreads=1, keep=keep) as a:
            for number, factor in enumerate(factors):
                if number:
                    a.flush()
                a[...] = ramp(0, a.size).reshape(a.shape) * np.int32(factor)
                a.attrs["factor"] = factor
            if stop:
                before = a.size
                a.resize(stop // 10 if a.ndim == 2 else stop, *a.shape[1:])
                if stop > before:
                    rows = ramp(before, stop) * np.int32(factors[-1])
                    a[before // 10 if a.ndim == 2 else before :] = rows.reshape(-1, *a.shape[1:])

    return run


def logged(
    prepare: Callable[[Path], object], *factors: int, keep: int | None = None
) -> Callable[[Path], None]:
    """Make a log with some commits, and much space that is not in use."""

    def run(path: Path) -> None:
        prepare(path)
        changes(*factors, keep=keep)(path)

    return run


def times(nitems: int, factor: int) -> State:
    """Return the state after `changes`."""
    return state(nitems, {"factor": factor})


def append_file(path: Path) -> None:
    new = path.with_name("new")
    new.write_bytes(ramp(250, 720).tobytes())
    append(path, new)
    new.unlink()


def changed(prepare: Callable[[Path], object], *, at: int, to: bytes) -> Callable[[Path], None]:
    """Overwrite bytes at a position; a negative one counts from the end."""

    def run(path: Path) -> None:
        prepare(path)
        data = bytearray(path.read_bytes())
        start = at if at >= 0 else len(data) + at
        data[start : start + len(to)] = to
        path.write_bytes(data)

    return run


def followed(prepare: Callable[[Path], object], rest: bytes) -> Callable[[Path], None]:
    """Append bytes behind the last chunk."""

    def run(path: Path) -> None:
        prepare(path)
        path.write_bytes(path.read_bytes() + rest)

    return run


def fix(path: Path) -> None:
    report = bp.verify(path, nthreads=1, fix=True)
    assert (report.ok, report.trailer) == (True, "valid")


def save_over(path: Path) -> None:
    bp.save(path, ramp(0, 330), chunks=CHUNK, attrs={"is": "new"})


OPERATIONS = [
    Operation("save", nothing, saved(330), [None, state(330)]),
    Operation("save over", saved(250), save_over, [state(250), state(330, {"is": "new"})]),
    Operation("append little", saved(250), appends(260), [state(250), state(260)]),
    Operation("append to full", saved(300), appends(310), [state(300), state(310)]),
    Operation("append much", saved(250), appends(990), [state(250), state(990)]),
    Operation(
        "append and flush",
        saved(30),
        appends(80, 250, 300, 340),
        [state(30), state(80), state(250), state(300), state(340)],
    ),
    Operation("append to no trailer", packed(250, 9), appends(520), [state(250), state(520)]),
    Operation("outgrow the table", packed(250, 1), appends(620), [state(250), state(620)]),
    Operation(
        "outgrow it after a flush",
        packed(250, 2),
        appends(260, 620, 700),
        [state(250), state(260), state(620), state(700)],
    ),
    Operation(
        "attrs",
        saved(250),
        appends(250, attrs={"a": 1}),
        [state(250), state(250, {"a": 1})],
    ),
    Operation(
        "outgrow the metadata",
        saved(250),
        appends(340, attrs=LONG),
        [state(250), state(340, LONG)],
    ),
    Operation("write", nothing, writes(330), [None, state(330)]),
    Operation(
        "write over",
        saved(250, attrs={"old": 1}),
        writes(330),
        [state(250, {"old": 1}), state(330)],
    ),
    Operation(
        "write and flush",
        nothing,
        writes(40, 250, 330, attrs=LONG),
        [None, state(40), state(250), state(330, LONG)],
    ),
    Operation("replay", crashed, lambda path: bp.open(path).close(), [state(250)]),
    Operation("replay and append", crashed, appends(400), [state(250), state(400)]),
    Operation(
        "save over a crashed one", crashed, save_over, [state(250), state(330, {"is": "new"})]
    ),
    Operation("save a grid", nothing, lambda path: saved_grid(330)(path), [None, state(330)]),
    Operation("append to a grid", saved_grid(250), appends(260), [state(250), state(260)]),
    Operation("append to a full grid", saved_grid(300), appends(310), [state(300), state(310)]),
    Operation(
        "append and flush a grid",
        saved_grid(30),
        appends(80, 250, 300, 340),
        [state(30), state(80), state(250), state(300), state(340)],
    ),
    Operation(
        "outgrow the table of a grid",
        saved_grid(20),
        appends(260, 2040),
        [state(20), state(260), state(2040)],
    ),
    Operation(
        "outgrow the metadata of a grid",
        saved_grid(250),
        appends(340, attrs=LONG),
        [state(250), state(340, LONG)],
    ),
    Operation(
        "write and flush a grid",
        saved_grid(250, attrs={"old": 1}),
        writes_grid(40, 250, 330),
        [state(250, {"old": 1}), state(40), state(250), state(330)],
    ),
    Operation(
        "replay and append to a grid",
        lambda path: crashed(path, saved_grid),
        appends(400),
        [state(250), state(400)],
    ),
    Operation(
        "write and flush array chunks",
        nothing,
        writes(40, 250, 330, attrs=LONG, codec="auto"),
        [None, state(40), state(250), state(330, LONG)],
    ),
    Operation(
        "append and flush array chunks",
        saved(30, codec="auto"),
        appends(80, 250, 300, 340),
        [state(30), state(80), state(250), state(300), state(340)],
    ),
    Operation(
        "append and flush a grid of array chunks",
        saved_grid(30, codec="auto", chunks=(20, 5)),
        appends(80, 410, 430),
        [state(30), state(80), state(410), state(430)],
    ),
    Operation(
        "replay and append to array chunks",
        lambda path: crashed(path, partial(saved, codec="auto")),
        appends(400),
        [state(250), state(400)],
    ),
    Operation(
        "fix array chunks with a damaged trailer",
        changed(saved(250, codec="auto"), at=-150, to=b"damage"),
        fix,
        [state(250)],
        repairs=True,
    ),
    Operation("append of 0.16", saved(250), append_file, [state(250), state(720)]),
    Operation("fix without a trailer", packed(250, 9), fix, [state(250)]),
    Operation("fix what follows", followed(packed(250, 9), bytes(900)), fix, [state(250)]),
    Operation(
        "fix a damaged trailer",
        changed(saved(250), at=-150, to=b"damage"),
        fix,
        [state(250)],
        repairs=True,
    ),
    Operation(
        "fix a lost table",
        changed(packed(250, 9), at=TABLE, to=b"\xff" * 24),
        fix,
        [state(250)],
        repairs=True,
    ),
    Operation("fix a crashed one", crashed, fix, [state(250)]),
    Operation("change a file", saved(250), changes(2), [state(250), times(250, 2)]),
    Operation(
        "change and flush",
        saved(250),
        changes(2, 3, 4, stop=470),
        [state(250), times(250, 2), times(250, 3), times(470, 4)],
    ),
    Operation(
        "change a log",
        logged(saved(350), 2, 3, 4, 5),
        changes(6, 7, 8, 9, stop=130),
        [times(350, 5), times(350, 6), times(350, 7), times(350, 8), times(130, 9)],
    ),
    Operation(
        "change a grid",
        logged(saved_grid(250), 2, 3),
        changes(4, 5, stop=470),
        [times(250, 3), times(250, 4), times(470, 5)],
    ),
    Operation(
        "change a log that keeps versions",
        logged(saved(350), 2, 3, 4, 5, keep=3),
        changes(6, 7, 8, 9, stop=130),
        [times(350, 5), times(350, 6), times(350, 7), times(350, 8), times(130, 9)],
    ),
    Operation(
        "change how many versions a log keeps",
        logged(saved_grid(250), 2, 3, 4, 5, keep=3),
        changes(6, 7, keep=1),
        [times(250, 5), times(250, 6), times(250, 7)],
    ),
    Operation("compact", logged(saved(350), 2, 3, 4), compact_array, [times(350, 4)]),
]


def state_of(path: Path) -> State:
    """Return the state that a reader finds, after comparing every item."""
    if not path.exists():
        return None
    factors = []
    for version in [each.number for each in bp.versions(path)]:
        with bp.open(path, version=version) as a:
            expected = ramp(0, a.size) * np.int32(a.attrs.get("factor", 1))
            assert np.array_equal(a[:].reshape(-1), expected)
            found = state(a.size, a.attrs)
            factors.append(a.attrs.get("factor", 1))
    assert factors == [*range(factors[-1] - len(factors) + 1, factors[-1] + 1)]
    assert np.array_equal(bp.load(path).reshape(-1), expected)
    return found


def contents_of(folder: Path) -> tuple[tuple[str, bytes], ...]:
    """Return names and contents of all files: most steps leave those of another step."""
    return tuple(sorted((each.name, each.read_bytes()) for each in folder.iterdir()))


def check(path: Path, allowed: list[State], repairs: bool = False) -> State:
    """Check that the file is sound, in one of the states, and can be appended to."""
    with without_syncs():
        found = state_of(path)
        assert found in allowed
        if repairs:
            fix(path)
        if found is None:
            return None
        assert bp.verify(path).ok
        nitems = found[0]
        with bp.open(path, "a", nthreads=1) as a:
            factor = np.int32(a.attrs.get("factor", 1))
            rows = ramp(nitems, nitems + 130) * factor
            a.append(grid(rows) if a.ndim == 2 else rows)
        with bp.open(path) as a:
            assert np.array_equal(a[:].reshape(-1), ramp(0, nitems + 130) * factor)
        assert bp.verify(path).ok
        assert not path.with_name("a.blp.journal").exists()
    return found
