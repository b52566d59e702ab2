"""Checks that hold for every format that `convert` reads and writes."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import FormatError
from bloscpack.filetypes import arrayfile, copyjob

AnyArray = np.ndarray[Any, Any]

LABELS: dict[str, Any] = {
    "name": "temperature",
    "dims": ["time", "y", "x"],
    "coords": {
        "time": {"data": ["2026-01-01", "2026-01-02"], "dtype": "<M8[D]"},
        "y": [0.5, 1.5, 2.5],
        "x": {"data": ["a", "b", "c", "d"], "attrs": {"long_name": "column"}},
        "height": {"dims": ["y", "x"], "data": [[1] * 4] * 3},
        "station": 7,
    },
}


def npy(array: Any) -> bytes:
    """Return the file that `numpy.save` writes."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def assert_same(one: AnyArray, other: AnyArray) -> None:
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert one.tobytes() == other.tobytes()


def assert_same_labelled(one: Any, two: Any) -> None:
    """Compare DataArrays: times may have another unit."""
    assert one.identical(two)
    two.close()


def assert_interrupted_steps_leave_nothing(source: Path, target: str, nsteps: int) -> None:
    """Interrupt each step of a copy; the progress is called between all of them."""
    before = sorted(source.parent.iterdir())
    for stop in range(nsteps):
        seen: list[int] = []

        def progress(done: int, total: int, seen: list[int] = seen, stop: int = stop) -> None:
            seen.append(done)
            if len(seen) > stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            bp.convert(source, source.parent / target, progress=progress)
        assert sorted(source.parent.iterdir()) == before


def assert_interrupted_run_leaves_nothing(source: Path, target: str, monkeypatch: Any) -> None:
    """Interrupt each step of a copy, and let its last one fail."""
    before = sorted(source.parent.iterdir())
    assert_interrupted_steps_leave_nothing(source, target, 3)
    with monkeypatch.context() as patch:
        for name in ("replace", "rename_new"):  # of a folder, and of a file
            patch.setattr(copyjob.disk, name, lambda *names: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            bp.convert(source, source.parent / target)
    assert sorted(source.parent.iterdir()) == before


def assert_differences_are_found(source: Path, target: str, monkeypatch: Any) -> None:
    """Write other items than those that were read."""
    before = sorted(source.parent.iterdir())
    write_all = arrayfile._ArrayCopier._write_all

    def wrong(copier: Any, writer: Any, tally: Any) -> None:
        write = writer.write

        def write_other(name: str, source: Any, add: Any) -> None:
            class Other:
                shape, dtype = source.rows.shape, source.rows.dtype

                def read(self, place: Any) -> AnyArray:
                    part = source.rows.read(place).copy()
                    part[-1] = part[-1] * 2 + 1
                    return part

            write(name, source._replace(rows=Other()), add)

        writer.write = write_other
        write_all(copier, writer, tally)

    bp.convert(source, source.parent / target)
    with monkeypatch.context() as patch:
        patch.setattr(arrayfile._ArrayCopier, "_write_all", wrong)
        with pytest.raises(FormatError, match="differs from its source and was removed: the items"):
            bp.convert(source, source.parent / f"other-{target}")
    assert sorted(source.parent.iterdir()) == sorted([*before, source.parent / target])
