"""Contents of a file of any type as arrays that a viewer reads part by part.

The plugins for napari and Rerun are written over it; nothing is decoded here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..array.array import Array
from ..array.attrs import plain
from ..display.contactsheet import pictured
from ..exceptions import BloscpackError, UnsupportedError
from ..filetypes.identify import identify_known
from ..filetypes.open import open_identified
from ..filetypes.table import ARCHIVES, ARRAYS
from ..notice import notice
from ..storage.protocol import closed_on_error
from ..types import AnyArray

# Stream, field, times in seconds, and numbers (N, k).
Column: TypeAlias = tuple[str, str, AnyArray, AnyArray]
MAX_ARRAY_NBYTES = 1 << 30
MAX_PICTURES = 1000
"""Arrays or clips of one file that are given to a viewer; it has no use for more layers."""


class Picture(NamedTuple):
    """An array or a clip, for a viewer."""

    name: str
    data: Any  # has shape, dtype and indexing as numpy: an `Array`, or a clip
    axes: tuple[str, ...]  # names of the axes; empty if the file has none
    meta: dict[str, Any]  # attrs, or metadata of the clip
    is_clip: bool
    is_rgb: bool  # whether the last axis has the colours red, green, blue and maybe alpha


def open_pictures(path: Any) -> tuple[Any, Iterator[Picture]]:
    """Open a file or a folder of clips, and return it with an iterator over its contents.

    The iterator gives at most `MAX_PICTURES`.

    Raises
    ------
    WrongKindError, OSError
        The file is not of a type of this package, or cannot be opened.
    FormatError, UnsupportedError
        The file is damaged or of an unknown version.
    """
    filetype, source = identify_known(path)
    with closed_on_error(source, source.name):
        opened = open_identified(filetype, source)
        if filetype is ARRAYS:
            stem = Path(source.name).stem if source.name else "array"
            return opened, iter([_array(stem, opened)])
        return opened, _each(opened, _array if filetype is ARCHIVES else _clip)


@contextmanager
def pictures(path: Any) -> Iterator[tuple[Iterator[Picture], Iterator[Column]]]:
    """Open a file for the time of a ``with`` block: its pictures, and columns of a recording."""
    opened, found = open_pictures(path)
    with opened:
        columns = getattr(opened, "iter_columns", None)
        yield found, iter(()) if columns is None else columns()


def _each(opened: Any, make: Callable[[str, Any], Picture]) -> Iterator[Picture]:
    """Yield the members of a file; a damaged one is left out with a warning."""
    shown = pictured(opened)
    for name in islice(opened, MAX_PICTURES):
        try:
            picture = make(name, shown[name])
        except BloscpackError as err:
            notice("%r is left out: %s", name, err)
            continue
        yield picture


def _array(name: str, array: Array) -> Picture:
    attrs = plain(array.attrs)
    attrs = attrs if isinstance(attrs, dict) else {"attrs": attrs}
    return Picture(name, array, _axes(attrs, array.ndim), attrs, False, _is_rgb(array))


def _clip(name: str, clip: Any) -> Picture:
    return Picture(name, clip, (), clip.meta, True, _is_rgb(clip))


def _axes(attrs: dict[str, Any], ndim: int) -> tuple[str, ...]:
    """Return ``attrs["dims"]`` if it has a name for each axis."""
    names = attrs.get("dims")
    if not isinstance(names, list) or len(names) != ndim:
        return ()
    return tuple(names) if all(isinstance(each, str) for each in names) else ()


def _is_rgb(data: Any) -> bool:
    return len(data.shape) >= 3 and data.shape[-1] in (3, 4) and data.dtype == "u1"


def native(items: AnyArray) -> AnyArray:
    """Return items in the byte order of the machine, and booleans as 0 and 255."""
    if items.dtype == "?":
        return items.astype("u1") * 255
    return items.astype(items.dtype.newbyteorder("="), copy=False)


def whole(picture: Picture) -> AnyArray:
    """Return all items of an array, for a viewer that has them in memory; refuse a large one."""
    array = picture.data
    if array.nbytes > MAX_ARRAY_NBYTES:
        raise UnsupportedError(
            f"{picture.name!r:.80}: {array.nbytes} bytes, and Rerun would need all of them in "
            f"memory; the limit is {MAX_ARRAY_NBYTES}: use blpk view, or save a part of it"
        )
    return native(array[...])


def check_drawable(picture: Picture) -> None:
    """Refuse an array that is not of numbers."""
    if picture.data.dtype.kind not in "biuf":
        raise UnsupportedError(
            f"{picture.name!r:.80}: a viewer draws integers and floats, "
            f"not {picture.data.dtype!s:.80}"
        )
