"""Arrays, and members of archives: pictures of planes, plots of lines, statistics, chunks."""

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..plugin import AnyArray, Archive, Array, BloscpackError, DecodedClip, IntArray, has_colours
from .protocol import Answer, Query, QueryError, Work, document, packet
from .raster import Extremes, finite_range, summary
from .session import ViewedFile
from .slices import Values, field_names, is_numeric, step_slice

MAX_SIDE = 1024
MAX_BINS = 4096
MAX_CHUNKS = 2048
MAX_PICTURE_NBYTES = 256 << 20
_MAX_NAMES = 1000
_MAX_CELLS = 20  # of a table, along each axis; CELLS in page/arrays.js
_PARTS = ("real", "imag", "abs", "angle")


def member_of(file: ViewedFile, query: Query, parameter: str = "member") -> Array:
    """Return the array of a request: that of the file, or a member of an archive by ordinal."""
    opened = file.open()
    if isinstance(opened, Array):
        return opened
    archive: Archive = opened
    names = list(archive)
    if not names:
        raise QueryError("the archive has no arrays")
    name = names[query.integer(parameter, 0, 0, len(names) - 1)]
    return file.cached(("member", name), lambda: archive[name], lambda array: 1 << 16)


def describe(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return shape, dtype, chunks and attrs of an array, and the names of members."""
    opened = file.open()
    found: dict[str, Any] = {}
    if isinstance(opened, Archive):
        names = list(opened)
        found |= {"members": names[:_MAX_NAMES], "nmembers": len(names)}
        found["archive_attrs"] = opened.attrs
        if not names:
            return document(found)
    array = member_of(file, query)
    chunks = array.chunks
    return document(
        found
        | {
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            "order": "F" if array.is_fortran else "C",
            "nbytes": array.nbytes,
            "cbytes": array.cbytes,
            "nchunks": array.nchunks,
            "chunks": None if chunks is None else list(chunks),
            "numeric": is_numeric(array.dtype.base),
            "fields": field_names(array.dtype)[:_MAX_NAMES],
            "complex": array.dtype.kind == "c",
            "pictures": prod(array.shape[:-3]) if has_pictures(array) else 0,
            "attrs": array.attrs,
        }
    )


def has_pictures(array: Array) -> bool:
    """Return whether the last axes are those of pictures in colour, which fit into memory."""
    is_color = has_colours(array.shape, array.dtype)
    return is_color and array.size > 0 and prod(array.shape[-3:]) <= MAX_PICTURE_NBYTES


class PictureClip(DecodedClip):
    """Array of pictures as a clip: all of its axes before those of a picture are one."""

    left_out: tuple[str, ...] = ()
    is_raw = is_upright = True

    def __init__(self, array: Array) -> None:
        if not has_pictures(array):
            raise QueryError(f"an array of {array.dtype} {array.shape} has no pictures in colour")
        self._array, self._outer = array, array.shape[:-3]
        self.id = Path(array.name or "array").stem
        self.shape: tuple[int, ...] = (prod(self._outer), *array.shape[-3:])
        self.dtype, self.meta = array.dtype, dict(array.attrs)

    def _frames_at(self, indices: IntArray) -> AnyArray:
        places = [tuple(map(int, np.unravel_index(each, self._outer))) for each in indices]
        if len(self._outer) == 1 and places and (np.diff(indices) == 1).all():
            return self._array.read((slice(places[0][0], places[-1][0] + 1),))
        pictures = [self._array.read(each) for each in places]
        return np.stack(pictures) if places else np.empty((0, *self.shape[1:]), self.dtype)


def values_of(file: ViewedFile, query: Query) -> Values:
    """Return the numbers that a request is about."""
    return Values(member_of(file, query), query.text("field"), query.word("part", _PARTS))


def _place(query: Query, shape: tuple[int, ...]) -> list[int | slice]:
    """Return the index of a request along every axis: the first item of axes without one."""
    text = query.text("index")
    parts = text.split(",") if text else []
    if len(parts) > len(shape):
        raise QueryError(f"index has {len(parts)} entries, the array has {len(shape)} axes")
    parts += ["0"] * (len(shape) - len(parts))
    place: list[int | slice] = []
    for axis, (part, length) in enumerate(zip(parts, shape, strict=True)):
        if not length:
            raise QueryError(f"axis {axis} has no items")
        place.append(Query({"index": part or "0"}).integer("index", 0, 0, length - 1))
    return place


def _window(query: Query, prefix: str, length: int) -> tuple[int, int]:
    """Return start and stop along an axis; all of it by default."""
    start = query.integer(f"{prefix}_start", 0, 0, length - 1)
    return start, query.integer(f"{prefix}_stop", length, start + 1, length)


def plane(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return values of a plane as a packet: every k-th row and column of a large one."""
    head, found = _read_plane(values_of(file, query), query, work)
    return packet(head, found)


def _read_plane(values: Values, query: Query, work: Work) -> tuple[dict[str, Any], AnyArray]:
    ndim = len(values.shape)
    if ndim < 2:
        raise QueryError("a plane needs two axes; read a line")
    rows = query.integer("rows", ndim - 2, 0, ndim - 1)
    cols = query.integer("cols", ndim - 1, 0, ndim - 1)
    if rows == cols:
        raise QueryError("rows and cols must be different axes")
    place = _place(query, values.shape)
    windows = {
        rows: _window(query, "row", values.shape[rows]),
        cols: _window(query, "col", values.shape[cols]),
    }
    counts = {
        rows: query.integer("height", 512, 1, MAX_SIDE),
        cols: query.integer("width", 512, 1, MAX_SIDE),
    }
    for axis, count in values.limit(counts, windows).items():
        place[axis] = step_slice(windows[axis], count)
    found, lost = values.read_strips(place, rows, work)
    if rows > cols:
        found = found.T
    limits = finite_range(found)
    head = {
        "rows": {"axis": rows, "start": windows[rows][0], "step": _step(place[rows])},
        "cols": {"axis": cols, "start": windows[cols][0], "step": _step(place[cols])},
        "low": None if limits is None else limits[0],
        "high": None if limits is None else limits[1],
        "lost": lost,
    }
    return head, found


def _step(entry: int | slice) -> int:
    return entry.step if isinstance(entry, slice) else 1


def line(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return values along an axis as a packet: all, or the extremes in each of some bins."""
    values = values_of(file, query)
    if not values.shape:
        raise QueryError("a line needs an axis")
    axis = query.integer("axis", len(values.shape) - 1, 0, len(values.shape) - 1)
    place = _place(query, values.shape)
    window = _window(query, "line", values.shape[axis])
    nbins = query.integer("bins", 1000, 1, MAX_BINS)
    length = window[1] - window[0]
    count = values.limit({axis: length}, {axis: window})[axis]
    place[axis] = chosen = step_slice(window, count)
    found, lost = values.read_strips(place, axis, work)
    head = {"axis": axis, "start": window[0], "length": length, "step": chosen.step, "lost": lost}
    if len(found) <= 2 * nbins:
        return packet(head | {"form": "values"}, found)
    extremes = Extremes(len(found), nbins)
    extremes.add(np.arange(len(found)), found)
    return packet(head | {"form": "extremes"}, *extremes.bins())


def statistics(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return statistics and a histogram of a plane, or of a sample of the whole array."""
    values = values_of(file, query)
    if query.word("scope", ("array", "plane")) == "plane" and len(values.shape) > 1:
        head, found = _read_plane(values, query, work)
        is_all = head["rows"]["step"] == head["cols"]["step"] == 1
        return document(summary(found) | {"exact": is_all, "lost": head["lost"]})
    found, lost, is_all = _sample(values, work)
    extremes = None if is_all else values.known_range()
    return document(summary(found, extremes) | {"exact": is_all, "lost": lost})


def _sample(values: Values, work: Work) -> tuple[AnyArray, list[str], bool]:
    """Return values of the whole array, or evenly spaced ones of a large array."""
    shape = values.shape
    if not shape or 0 in shape:
        return values.read([slice(None)] * len(shape)).reshape(-1), [], True
    windows = {axis: (0, length) for axis, length in enumerate(shape)}
    counts = values.limit(dict(enumerate(shape)), windows)
    place: list[int | slice] = [step_slice(windows[axis], counts[axis]) for axis in windows]
    found, lost = values.read_strips(place, 0, work)
    return found, lost, all(_step(each) == 1 for each in place)


def table(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return a few items as text, which works for every dtype."""
    array = member_of(file, query)
    if not array.shape:
        return document({"cells": [[_text(array[()])]], "rows": None, "cols": None})
    if not array.size:
        return document({"cells": [], "rows": 0, "cols": 0})
    rows = query.integer("rows", max(0, array.ndim - 2), 0, array.ndim - 1)
    cols = query.integer("cols", array.ndim - 1, 0, array.ndim - 1)
    place = _place(query, array.shape)
    starts = {}
    for axis, prefix in ((rows, "row"), (cols, "col")):
        starts[axis] = start = query.integer(f"{prefix}_start", 0, 0, array.shape[axis] - 1)
        place[axis] = slice(start, min(start + _MAX_CELLS, array.shape[axis]))
    work.step()
    found = np.asarray(array.read(tuple(place)))
    if rows == cols:
        found = found.reshape(-1, 1)
    elif rows > cols:
        found = found.swapaxes(0, 1)
    cells = [[_text(item) for item in row] for row in found]
    return document({"cells": cells, "rows": starts[rows], "cols": starts[cols]})


def _text(item: Any) -> str:
    text = str(item)
    return text if len(text) <= 100 else f"{text[:100]}…"


def chunks(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return place, stored size and region of some chunks, and the damage that was found."""
    array = member_of(file, query)
    container = array.container
    start = query.integer("start", 0, 0, max(0, array.nchunks - 1))
    count = query.integer("count", 512, 1, MAX_CHUNKS)
    size = container.source.size()
    regular = array.chunks is not None
    damaged = _damaged_chunks(file, query)
    rows = []
    for index in range(start, min(start + count, array.nchunks)):
        work.step()
        row: dict[str, Any] = {"index": index, "damage": damaged.get(index)}
        try:
            extent = container.stored.extent(index)
            if extent is None:
                stored = container.fetch(index)
                extent = stored.offset, stored.header.cbytes
            row |= {"offset": extent[0], "cbytes": min(extent[1], size - extent[0])}
        except BloscpackError as err:
            row["damage"] = str(err)
        row["nbytes"] = container.chunk_nbytes(index)
        if regular:
            row["region"] = [[each.start, each.stop] for each in array.chunk_region(index)]
        rows.append(row)
    found = {"nchunks": array.nchunks, "start": start, "verified": file.report is not None}
    # Lists of a JSON reply are cut: each column is a packet's array instead.
    columns = [
        np.array([row.get(key, -1) for row in rows], "f8") for key in ("offset", "cbytes", "nbytes")
    ]
    regions = np.array([row["region"] for row in rows], "f8") if regular and rows else np.empty(0)
    marks = {str(row["index"]): row["damage"] for row in rows if row["damage"]}
    return packet(found | {"damage": marks}, *columns, regions)


def _damaged_chunks(file: ViewedFile, query: Query) -> dict[int, str]:
    if file.report is None:
        return {}
    opened = file.open()
    member = None
    if isinstance(opened, Archive):
        member = list(opened)[query.integer("member", 0, 0, max(0, len(opened) - 1))]
    return {
        each.index: each.what
        for each in file.report.damage
        if each.index is not None and each.member == member
    }
