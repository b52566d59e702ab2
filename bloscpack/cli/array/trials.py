"""Trials of settings of `bloscpack.save` on a sample of an array."""

import io
from collections.abc import Iterator
from math import prod
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from ...archive.save import save
from ...array.dtype import pack_dtype
from ...array.layout import AUTO, Chunks, divide, grid_chunks, item_encoder, stored_bytes
from ...container.writer import Chunking
from ...exceptions import FormatError
from ...filetypes.arraysource import ArraySource
from ...filetypes.open import load
from ...format.chunkgrid import ChunkGrid
from ...types import AnyArray, Progress
from ..console.trialtable import Trial, least_seconds, smallest_of

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
# Chunks, tried with the coding that makes the smallest file, after those of the source and after
# chunks of more and of fewer rows than by default.
DIVISIONS: tuple[dict[str, Any], ...] = (
    {"chunks": "auto"},
    {"chunks": "auto", "access": "tiles"},
    {"chunks": "auto", "access": "series"},
)


class Sample(NamedTuple):
    """Rows of an array, or parts of one row that is larger than the sample.

    Attributes
    ----------
    array : ndarray
        The rows, in the order in which the array is stored.
    rows : list of (int, int)
        The ranges that they are from.
    axis : int
        The axis of these ranges. It is the first one as stored, unless a row is larger than the
        sample: each axis stored before it then has one index, in the middle.
    shape : tuple of int
        Shape of the whole array.
    is_fortran : bool
        Whether the array is stored in Fortran order.
    chunks : int, tuple of int or None
        Chunks of the array in its file; None for the default.
    """

    array: AnyArray
    rows: list[tuple[int, int]]
    axis: int
    shape: tuple[int, ...]
    is_fortran: bool
    chunks: Chunks


def take_sample(source: ArraySource, most: int) -> Sample:
    """Read evenly spaced rows, or parts of one, of at most `most` bytes; at least one item."""
    pack_dtype(source.rows.dtype)  # refuses Python objects
    shape = tuple(source.rows.shape)
    step = -1 if source.is_fortran else 1
    stored = shape[::step] or (1,)
    row_nbytes = prod(stored[1:]) * source.rows.dtype.itemsize
    if not stored[0] * row_nbytes:
        raise ValueError("the array has no items to try settings on")
    before: list[slice] = []
    while row_nbytes > most and len(before) + 1 < len(stored):
        middle = stored[len(before)] // 2
        before.append(slice(middle, middle + 1))
        row_nbytes //= stored[len(before)]
    nrows = stored[len(before)]
    count = min(nrows, max(1, most // row_nbytes))
    nplaces = min(PLACES, count) if count < nrows else 1
    rows = []
    for place in range(nplaces):
        length = count * (place + 1) // nplaces - count * place // nplaces
        start = (nrows - count) * place // max(nplaces - 1, 1) + count * place // nplaces
        rows.append((start, start + length))
    after = (slice(None),) * (len(shape) - len(before) - 1)
    places = [(*before, slice(*each), *after) if shape else () for each in rows]
    taken = [np.asarray(source.rows.read(place[::step])) for place in places]
    axis = len(after) if source.is_fortran else len(before)
    array = np.concatenate(taken, axis=axis) if len(taken) > 1 else taken[0]
    array = np.asarray(array, order="F" if source.is_fortran else "C")
    return Sample(array, rows, axis, shape, source.is_fortran, source.chunks)


def run_trials(sample: Sample, progress: Progress | None = None) -> list[Trial]:
    """Return the trials in the order in which they ran; the first has the default settings."""
    expected = stored_bytes(sample.array)
    description = (sample.array.dtype, sample.array.shape, sample.is_fortran)
    codings = [
        coding
        for coding in CODINGS
        if coding.get("codec") != AUTO or item_encoder(description) is not None
    ]
    divisions = list(_divisions(sample))
    total = len(codings) + len(divisions)
    trials: list[Trial] = []

    def run(settings: dict[str, Any], chunks: Chunks) -> None:
        trials.append(_trial(sample.array, expected, settings, chunks))
        if progress is not None:
            progress(len(trials), total)

    for coding in codings:
        run(coding, None)
    smallest = trials[smallest_of(trials)].settings
    for settings, chunks in divisions:
        run(smallest | settings, chunks)
    return trials


def _divisions(sample: Sample) -> Iterator[tuple[dict[str, Any], Chunks]]:
    """Yield settings that divide the whole array differently, and their chunks in the sample.

    Chunks of a grid are cut to the sample. Chunks of as many rows as the sample has are left out.
    """
    description = sample.array.dtype, sample.shape, sample.is_fortran
    whole = divide(description, None, None)
    nrows = sample.shape[-1 if sample.is_fortran else 0] if sample.shape else 1
    row_nbytes = whole.nbytes // nrows
    seen: set[Chunking | ChunkGrid] = {whole}
    count = whole.chunk_size // row_nbytes if isinstance(whole, Chunking) and sample.shape else 0
    counts = [each for each in (sample.chunks, 4 * count, count // 4) if each]
    for settings in (*({"chunks": each} for each in counts), *DIVISIONS):
        division = divide(description, settings["chunks"], settings.get("access"))
        if division in seen:
            continue
        seen.add(division)
        grid = grid_chunks(division)
        if grid is not None:
            lengths = zip(grid, sample.array.shape, strict=True)
            yield settings, tuple(min(step, length) for step, length in lengths)
        elif isinstance(division, Chunking):
            nsampled = sample.array.shape[-1 if sample.is_fortran else 0]
            if 0 < division.chunk_size // row_nbytes < nsampled:
                yield settings, division.chunk_size // row_nbytes


def _trial(
    array: AnyArray, expected: memoryview, settings: dict[str, Any], chunks: Chunks
) -> Trial:
    arguments = {key: value for key, value in settings.items() if key not in ("chunks", "access")}
    if chunks is not None:
        arguments["chunks"] = chunks
    if isinstance(chunks, tuple):  # of a grid, whose blocks depend on it
        arguments["access"] = settings.get("access")
    stream = io.BytesIO()
    began = process_time()
    save(stream, array, nthreads=1, **arguments)
    write_seconds = process_time() - began
    data = stream.getvalue()
    if stored_bytes(load(data, nthreads=1)) != expected:  # as bytes: NaN is not equal to NaN
        raise FormatError(f"an array saved with {settings} is read with other items")
    read_seconds = least_seconds(lambda: load(data, nthreads=1), READS)
    return Trial(settings, len(data), write_seconds, read_seconds)
