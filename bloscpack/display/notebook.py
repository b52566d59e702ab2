"""Cards: what notebooks show of each kind of object, as tables and pictures in HTML.

Objects call these functions in ``_repr_html_``. They belong to higher layers, so their parameters
are `Any` here. The cost is bounded for a file of any size: a few chunks, frames or rows are
read. Errors, such as those of damaged chunks and of closed files, are shown in their place.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any

import numpy as np

from ..types import AnyArray
from .colormap import colour
from .contactsheet import clip_sheet, sheet_width, spread
from .htmltable import ERRORS, Markup, cut, fields, grid, html, joined, picture, plot, shown
from .lineplot import columns_of, svg_plot
from .thumbnail import MAX_NBYTES, index_text, window

MAX_ROWS = 8  # clips, arrays, streams and samples listed in a table
MAX_FAULTS = 20  # lines of a report
MAX_FRAMES = 8  # frames of a clip, or samples
_SIDE = 256  # pixels of a thumbnail, at most
_MIN_WIDTH = 128  # smaller thumbnails are enlarged
TILE = 96  # width in pixels of each of several pictures


def size_text(nbytes: int) -> str:
    """Return a number of bytes for people: ``1.5 MiB``."""
    size, unit = float(nbytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def _sizes(item: Any) -> str:
    return f"{size_text(item.nbytes)} in {size_text(item.cbytes)} ({item.nbytes} in {item.cbytes})"


def array_card(array: Any) -> str:
    """Return the card of an array in a file."""
    return joined(fields(_array_fields(array)), guarded(lambda: array_picture(array)))


def _array_fields(array: Any) -> dict[str, object]:
    chunks = array.chunks
    return {
        "file": array.name or "memory",
        "shape": array.shape,
        "dtype": array.dtype,
        "chunks": f"{array.nchunks} of shape {chunks}" if chunks else array.nchunks,
        "codec": lambda: codec_of(array),
        "bytes": lambda: _sizes(array),
        "attrs": lambda: dict(array.attrs),
    }


def codec_of(array: Any) -> str:
    """Return the codec of the first chunk; empty without chunks."""
    if not array.nchunks:
        return ""
    header = array.container.fetch(0).header
    return "array chunks" if header.is_array else f"{header.codec}, {header.shuffle.name.lower()}"


def array_picture(array: Any) -> Markup:
    """Return a picture of a part of an array, or a line plot of one with a single axis."""
    index = window(array)
    return values_picture(array.read(index), index)


def values_picture(values: AnyArray, index: tuple[int | slice, ...]) -> Markup:
    """Return a picture of values, whose caption says which part of an array they are."""
    where = index_text(index)
    if values.ndim < 2:
        columns = columns_of(values, 1)
        return plot(svg_plot(values), f"{where}: {columns.bottom:.6g} to {columns.top:.6g}")
    return thumbnail(values, where)


def thumbnail(values: AnyArray, name: str = "") -> Markup:
    """Return a small picture of a plane of values; its caption explains the colours."""
    found = colour(values, _SIDE, _SIDE)
    width = max(_MIN_WIDTH, found.pixels.shape[1])
    return picture(found.pixels, f"{name}{found.legend()}", width=width)


def many_arrays_card(many: Any) -> str:
    """Return the card of arrays in several files; its picture is of the file in the middle."""
    names = many.names
    middle = len(names) // 2
    table = fields(
        {
            "files": f"{len(names)}: {names[0]} to {names[-1]}" if len(names) > 1 else names[0],
            "shape": many.shape,
            "dtype": many.dtype,
            "chunks": many.chunks,
            "bytes": size_text(many.nbytes),
            "attrs": lambda: dict(many.attrs),
        }
    )
    found = guarded(lambda: array_picture(many.array(middle)))
    note = Markup(f"<small>picture of {html(names[middle])}</small>")
    return joined(table, found, note)


def archive_card(archive: Any) -> str:
    """Return the card of an archive, with a row for each of its first arrays."""

    def row(name: str) -> Iterator[object]:
        yield name
        array = archive[name]
        yield from (array.shape, array.dtype, array.chunks, size_text(array.nbytes))

    table = fields(
        {
            "file": archive.name or "memory",
            "arrays": len(archive),
            "bytes": lambda: size_text(archive.cbytes),
            "attrs": lambda: dict(archive.attrs),
        }
    )
    names = ("array", "shape", "dtype", "chunks", "bytes")
    return joined(table, first_rows(names, archive, row))


def clip_card(clip: Any) -> str:
    """Return the card of a clip, with a contact sheet of a few frames."""
    table = fields(
        {
            "clip": clip.id,
            "shape": lambda: clip.shape,
            "dtype": lambda: clip.dtype,
            "codec": getattr(clip, "codec", None),
            "bytes": (lambda: _sizes(clip)) if hasattr(clip, "cbytes") else None,
            "meta": lambda: clip.meta,
        }
    )
    return joined(table, guarded(lambda: clip_picture(clip)))


def clip_picture(clip: Any) -> Markup:
    """Return a contact sheet of at most 8 frames of a clip, and of at most 32 MiB of pixels."""
    if not len(clip):
        return Markup()
    nbytes = int(np.prod(clip.shape[1:])) * clip.dtype.itemsize
    if nbytes > MAX_NBYTES:
        raise ValueError(f"frames of {nbytes} bytes are too large for a picture of several")
    numbers = spread(len(clip), min(MAX_FRAMES, MAX_NBYTES // max(1, nbytes)))
    columns = len(numbers)
    sheet = clip_sheet(clip, numbers, columns=columns, width=sheet_width(columns, TILE))
    caption = f"frames {', '.join(map(str, numbers))}"
    return picture(sheet.pixels, "; ".join((caption, *sheet.notes)))


def store_card(store: Any) -> str:
    """Return the card of a frame store or another source of clips."""

    def row(id_: str) -> Iterator[object]:
        yield id_
        clip = store[id_]
        yield clip.shape
        yield clip.dtype
        yield lambda: clip.meta

    table = fields(
        {
            "file": store.name or "memory",
            "clips": lambda: len(store),
            "frames": (lambda: store.nframes) if hasattr(type(store), "nframes") else None,
            "bytes": (lambda: size_text(store.cbytes)) if hasattr(type(store), "cbytes") else None,
            "attrs": (lambda: dict(store.attrs)) if hasattr(type(store), "attrs") else None,
        }
    )

    def first() -> Markup:
        keys = store.keys()
        return clip_picture(store[keys[0]]) if len(keys) else Markup()

    clips = guarded(lambda: first_rows(("clip", "shape", "dtype", "meta"), store.keys(), row))
    return joined(table, clips, guarded(first))


def report_card(report: Any) -> str:
    """Return the card of the report of a verification or a recovery."""
    faults = len(report.damage)
    state = "ok" if report.ok else f"{faults} fault{'' if faults == 1 else 's'}"
    colour_of = "#080" if report.ok else "#c00"
    table = fields(
        {
            "file": report.path or "memory",
            "state": Markup(f'<b style="color:{colour_of}">{state}</b>'),
            "chunks": report.nchunks,
            "saved": report.saved,
            "bytes": size_text(report.nbytes),
            "trailer": report.trailer,
        }
    )
    lines = [(fault,) for fault in report.damage[:MAX_FAULTS]]
    notices = [(notice,) for notice in report.notices[:MAX_FAULTS]]
    return joined(
        table,
        grid(("fault",), lines, faults),
        grid(("notice",), notices, len(report.notices)),
    )


def conversion_card(conversion: Any) -> str:
    """Return the card of the result of a conversion."""
    names = ("kind", "clips", "frames", "images", "lossless", "left_out")
    return joined(fields({name: getattr(conversion, name) for name in names}))


def guarded(make: Callable[[], Markup]) -> Markup:
    """Return a piece of HTML, or the message of its error on a line of its own."""
    found = shown(make)
    return found if not found or found.startswith("<div") else Markup(f"<div>{found}</div>")


def first_rows(
    names: tuple[str, ...], keys: Collection[Any], row: Callable[[Any], Iterator[object]]
) -> Markup:
    """Return a table with a row for each of the first keys; the message of an error ends a row."""
    return grid(names, (_cells(row, key) for key in islice(keys, MAX_ROWS)), len(keys))


def _cells(row: Callable[[Any], Iterator[object]], key: Any) -> list[object]:
    cells: list[object] = []
    try:
        for cell in row(key):
            cells.append(shown(cell) if callable(cell) else html(cell))
    except ERRORS as err:
        message = f"{type(err).__name__}: {err}"
        cells += [html(key)] if not cells else []
        cells.append(Markup(f'<span style="color:#c00">{html(cut(message))}</span>'))
    return cells
