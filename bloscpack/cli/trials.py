"""Trials of settings of `bloscpack.save` on a sample of an array."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from ..array.array import load
from ..array.dtype import pack_dtype
from ..array.layout import AUTO, divide, grid_chunks, item_encoder, stored_bytes
from ..exceptions import FormatError
from ..filetypes.arraycopy import ArraySource
from ..integrations.save import save
from ..types import AnyArray, Progress

# Rows are taken in several places: the middle of an array is often unlike its ends.
PLACES = 4
READS = 5
CODINGS: tuple[dict[str, Any], ...] = (
    {},
    {"clevel": 1},
    {"clevel": 5},
    {"shuffle": "bit"},
    {"shuffle": "none"},
    {"codec": "lz4"},
    {"codec": "lz4", "shuffle": "bit"},
    {"codec": AUTO},
)
# Shapes of chunks, tried with the coding that makes the smallest file.
DIVISIONS: tuple[dict[str, Any], ...] = (
    {"chunks": "auto"},
    {"chunks": "auto", "access": "tiles"},
    {"chunks": "auto", "access": "series"},
)
# The best settings are the smallest that are read in at most this many times the time of the
# default ones.
PATIENCE = 2.0


class Sample(NamedTuple):
    """Rows of an array.

    Attributes
    ----------
    array : ndarray
        The rows, in the order in which the array is stored.
    rows : list of (int, int)
        The ranges that they are from.
    shape : tuple of int
        Shape of the whole array.
    is_fortran : bool
        Whether rows are counted along the last axis.
    """

    array: AnyArray
    rows: list[tuple[int, int]]
    shape: tuple[int, ...]
    is_fortran: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of one trial.

    Attributes
    ----------
    settings : dict
        Arguments of `bloscpack.save` that are not the defaults.
    nbytes : int
        Size of the file.
    write_seconds, read_seconds : float
        Processor time of one thread; that of reading is the least of several.
    """

    settings: dict[str, Any]
    nbytes: int
    write_seconds: float
    read_seconds: float


def take_sample(source: ArraySource, most: int) -> Sample:
    """Read rows of about `most` bytes in all, at least one, evenly spaced.

    Raises
    ------
    ValueError
        The array has no items.
    ObjectNumpyArrayRejection
        They are Python objects.
    """
    pack_dtype(source.rows.dtype)  # refuses Python objects
    shape, nrows = tuple(source.rows.shape), source.nrows
    nbytes = int(np.prod(shape, dtype=object)) * source.rows.dtype.itemsize
    if not nbytes:
        raise ValueError("the array has no items to try settings on")
    count = min(nrows, max(1, most // (nbytes // nrows)))
    places = min(PLACES, count) if count < nrows else 1
    rows = []
    for place in range(places):
        length = count * (place + 1) // places - count * place // places
        start = (nrows - count) * place // max(places - 1, 1) + count * place // places
        rows.append((start, start + length))
    axis = len(shape) - 1 if source.is_fortran else 0
    taken = [
        np.asarray(source.rows.read((slice(None),) * axis + (slice(*each),) if shape else ()))
        for each in rows
    ]
    array = np.concatenate(taken, axis=axis) if shape else taken[0]
    array = np.asarray(array, order="F" if source.is_fortran else "C")
    return Sample(array, rows, shape, source.is_fortran)


def run_trials(sample: Sample, progress: Progress | None = None) -> list[Trial]:
    """Return the trials in the order in which they ran; the first has the default settings.

    Raises
    ------
    FormatError
        What was read differs from the sample.
    """
    expected = stored_bytes(sample.array)
    description = (sample.array.dtype, sample.array.shape, sample.is_fortran)
    codings = [
        coding
        for coding in CODINGS
        if coding.get("codec") != AUTO or item_encoder(description) is not None
    ]
    total = len(codings) + len(DIVISIONS)
    trials: list[Trial] = []

    def run(settings: dict[str, Any], chunks: tuple[int, ...] | None) -> None:
        trials.append(_trial(sample.array, expected, settings, chunks))
        if progress is not None:
            progress(len(trials), total)

    for coding in codings:
        run(coding, None)
    smallest = trials[smallest_of(trials)].settings
    for division, chunks in _grids(sample):
        run(smallest | division, chunks)
    if progress is not None:
        progress(total, total)
    return trials


def _grids(sample: Sample) -> Iterator[tuple[dict[str, Any], tuple[int, ...]]]:
    """Yield the divisions of the whole array that are different grids, and their chunks."""
    seen = set()
    for division in DIVISIONS:
        description = sample.array.dtype, sample.shape, sample.is_fortran
        chunks = grid_chunks(divide(description, division["chunks"], division.get("access")))
        if chunks is not None and chunks not in seen:
            seen.add(chunks)
            lengths = zip(chunks, sample.array.shape, strict=True)
            yield division, tuple(min(step, length) for step, length in lengths)


def _trial(
    array: AnyArray,
    expected: memoryview,
    settings: dict[str, Any],
    chunks: tuple[int, ...] | None,
) -> Trial:
    arguments = {key: value for key, value in settings.items() if key not in ("chunks", "access")}
    if chunks is not None:
        arguments["chunks"] = chunks
    stream = io.BytesIO()
    began = process_time()
    save(stream, array, nthreads=1, **arguments)
    write_seconds = process_time() - began
    data = stream.getvalue()
    if stored_bytes(load(data, nthreads=1)) != expected:  # as bytes: NaN is not equal to NaN
        raise FormatError(f"an array saved with {settings} is read with other items")
    seconds = []
    for _ in range(READS):
        began = process_time()
        load(data, nthreads=1)
        seconds.append(process_time() - began)
    return Trial(settings, len(data), write_seconds, min(seconds))


def smallest_of(trials: Sequence[Trial]) -> int:
    """Return the index of the smallest file, the first of equal ones."""
    return min(range(len(trials)), key=lambda index: trials[index].nbytes)


def fastest_of(trials: Sequence[Trial]) -> int:
    """Return the index of the file that is read fastest."""
    return min(range(len(trials)), key=lambda index: trials[index].read_seconds)


def best_of(trials: Sequence[Trial]) -> int:
    """Return the index of the smallest file that is read in not much more time than the default."""
    most = PATIENCE * trials[0].read_seconds
    quick = [index for index, trial in enumerate(trials) if trial.read_seconds <= most]
    return min(quick, key=lambda index: trials[index].nbytes)
