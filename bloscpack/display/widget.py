"""Widgets of notebooks: a player of clips, and a viewer of slices of arrays.

The page in the browser asks by custom messages for what it shows, and gets one picture for each
message: PNG, or the smallest and largest value of each column of a line. Messages are untrusted.
`ClipReplies` and `SliceReplies` check every field and bound what a message makes them read; they
know no widget, so that they can be tested without one. Errors, such as those of damaged chunks and
of closed files, are shown in the page.
"""

import re
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..parallel.imports import importing, optional_library
from ..types import AnyArray
from .colormap import colour, colour_range, encode_png
from .contactsheet import is_cmyk, pictured, spread
from .framerate import DEFAULT_RATE, rate_in
from .htmltable import ERRORS, cut
from .lineplot import columns_of
from .thumbnail import cell_of, picture_axes, window

# Largest side of a picture in pixels, and decoded bytes that it may cost.
MAX_SIDE = 1024
MAX_NBYTES = 256 << 20
# Frames that the range of values is taken from, if they are not of 8 bits.
_RANGE_FRAMES = 8
COLORMAPS = ("viridis", "gray")
_MAX_CHUNKS = 1 << 14  # decoded for one picture
_MAX_ITEMS = 1 << 22  # read for a line
_COLUMNS = 800  # of the plot of a line
# Modules in `page/` that the script of the widgets consists of, each behind those it imports.
_MODULES = ("dom", "colors", "pixels", "plot", "player", "axes")
_MAX_FLOAT = float(np.finfo("f8").max)
_MAX_ID = 1 << 53  # the integers that JavaScript counts exactly


class Reply(NamedTuple):
    """Answer to a message: what becomes JSON, and the buffers that travel with it."""

    content: dict[str, Any]
    buffers: list[bytes]


class MessageError(ValueError):
    """A message from the browser is invalid."""


def player(clip: Any) -> Any:
    """Return a widget that plays a clip."""
    return _widget(ClipReplies(clip).reply)


def viewer(array: Any) -> Any:
    """Return a widget that shows slices of an array."""
    return _widget(SliceReplies(array).reply)


def _widget(reply: Callable[[dict[str, Any]], Reply]) -> Any:
    """Return a widget whose messages `reply` answers."""
    with importing, optional_library("it", "notebook", "widgets of notebooks need anywidget"):
        import anywidget

    def on_message(widget: Any, content: object, _: object) -> None:
        answer = answer_of(reply, content)
        if answer is not None:
            widget.send(answer.content, answer.buffers)

    # No tooltip: views of JupyterLab fail for one without a description, which is of other widgets.
    found = anywidget.AnyWidget(_esm=script())
    found.on_msg(on_message)
    return found


def script() -> str:
    """Return the script of the widgets: one module without imports, as anywidget needs it.

    Its modules share one scope, so that no two of them may define the same name.
    """
    folder = Path(__file__).parent
    parts = [folder / "page" / f"{name}.js" for name in _MODULES] + [folder / "widget.js"]
    text = "\n".join(part.read_text("utf-8") for part in parts)
    return re.sub(r"^import .*\n|^export (?!default)", "", text, flags=re.MULTILINE)


def answer_of(reply: Callable[[dict[str, Any]], Reply], content: object) -> Reply | None:
    """Return the answer to any message, with the message of an error; None if it has no number."""
    if not isinstance(content, dict) or not _is_int(content.get("id"), _MAX_ID):
        return None
    try:
        found = reply(content)
    except (*ERRORS, LookupError) as err:
        found = Reply({"error": cut(str(err) or type(err).__name__)}, [])
    return Reply({"id": content["id"], **found.content}, found.buffers)


def _is_int(value: object, stop: int) -> bool:
    return type(value) is int and 0 <= value < stop


def _int_of(content: dict[str, Any], name: str, stop: int) -> int:
    value = content.get(name)
    if not _is_int(value, stop):
        raise MessageError(f"{name}: expected an integer from 0 to {stop - 1}, got {value!r:.40}")
    number: int = value  # type: ignore[assignment]
    return number


class ClipReplies:
    """Answers of a player: ``info``, and ``frame`` with its number."""

    def __init__(self, clip: Any) -> None:
        self._clip = pictured(clip)
        self._is_cmyk: bool | None = None
        self._limits: tuple[float, float] | None = None

    def reply(self, content: dict[str, Any]) -> Reply:
        """Return the answer to one message."""
        kind = content.get("kind")
        if kind == "info":
            return Reply(self._info(), [])
        if kind == "frame":
            return self._frame(_int_of(content, "frame", len(self._clip)))
        raise MessageError(f"unknown kind of message {kind!r:.40}")

    def _info(self) -> dict[str, Any]:
        clip = self._clip
        return {
            "widget": "player",
            "title": cut(clip.id),
            "nframes": len(clip),
            "fps": rate_in(clip.meta) or float(DEFAULT_RATE),
        }

    def _frame(self, number: int) -> Reply:
        frame = self._read(number)
        if self._is_cmyk is None:
            self._is_cmyk = is_cmyk(self._clip)
        if self._limits is None and frame.dtype not in (np.uint8, np.bool_):
            # One range for all frames, so that they do not flicker.
            chosen = spread(len(self._clip), _RANGE_FRAMES)
            self._limits = colour_range(self._read(each) for each in (number, *chosen))
        values = frame if frame.ndim > 1 else frame.reshape(1, -1)
        found = colour(
            values, MAX_SIDE, MAX_SIDE, is_cmyk=self._is_cmyk, limits=self._limits, is_gray=True
        )
        return Reply({"frame": number, "type": "image/png"}, [encode_png(found.pixels)])

    def _read(self, number: int) -> AnyArray:
        shape = self._clip.shape[1:]
        nbytes = prod(shape) * self._clip.dtype.itemsize
        if nbytes > MAX_NBYTES:
            raise ValueError(f"a frame of {nbytes} bytes is too large to be shown")
        if not nbytes or len(shape) > 3:
            raise ValueError(f"frames of shape {shape} cannot be shown")
        frame: AnyArray = self._clip.read(number)
        # Colouring takes eight bytes or more for each value: pixels of huge frames are left out.
        steps = (slice(None, None, max(1, side // MAX_SIDE // 2)) for side in frame.shape[:2])
        return np.ascontiguousarray(frame[tuple(steps)])


class SliceReplies:
    """Answers of a viewer: ``info``, and ``slice`` with axes, index, windows and colours."""

    def __init__(self, array: Any) -> None:
        self._array = array
        # Of arrays in several files, the file in the middle shows what a part costs.
        is_one = hasattr(array, "nchunks")
        self._costs = array if is_one else array.array(len(array.names) // 2)

    def reply(self, content: dict[str, Any]) -> Reply:
        """Return the answer to one message."""
        kind = content.get("kind")
        if kind == "info":
            return Reply(self._info(), [])
        if kind == "slice":
            return self._slice(content)
        raise MessageError(f"unknown kind of message {kind!r:.40}")

    def _info(self) -> dict[str, Any]:
        array = self._array
        window(self._costs, max_chunks=1 << 62, max_nbytes=1 << 62)  # raises if it has no picture
        first, last = picture_axes(array)
        return {
            "widget": "viewer",
            "title": cut(array.dtype),
            "shape": list(array.shape[:last]),
            "axes": list(range(first, last)),
            "hasColors": array.dtype not in (np.uint8, np.bool_),
            "colormaps": list(COLORMAPS),
        }

    def _slice(self, content: dict[str, Any]) -> Reply:
        array = self._array
        last = picture_axes(array)[1]
        axes = self._axes(content, last)
        index = _list_of(content, "index", last)
        asked = _list_of(content, "windows", len(axes))
        windows = {
            axis: _window_of(each, array.shape[axis])
            for axis, each in zip(axes, asked, strict=True)
        }
        self._shrink(windows)
        selection: list[int | slice] = [slice(None)] * len(array.shape)
        for axis in range(last):
            if axis in windows:
                start, stop = windows[axis]
                limit = MAX_SIDE if len(axes) > 1 else _MAX_ITEMS
                selection[axis] = slice(start, stop, -(-(stop - start) // limit))
            else:
                selection[axis] = _int_of({"index": index[axis]}, "index", array.shape[axis])
        limits, is_gray = _limits_of(content), _is_gray(content)
        values: AnyArray = array.read(tuple(selection))
        answer: dict[str, Any] = {"windows": [windows[axis] for axis in axes]}
        if len(axes) == 1:
            columns = columns_of(values, _COLUMNS)
            answer["range"] = _range_text(columns.bottom, columns.top)
            return Reply(answer, [each.astype("<f8").tobytes() for each in columns[:2]])
        if axes[0] > axes[1]:
            values = values.swapaxes(0, 1)
        found = colour(values, MAX_SIDE, MAX_SIDE, limits=limits, is_gray=is_gray)
        answer |= {"type": "image/png", "range": _range_text(found.low, found.high)}
        return Reply(answer, [encode_png(found.pixels)])

    def _axes(self, content: dict[str, Any], last: int) -> list[int]:
        """Return the axes of rows and of columns, or the only axis of an array with one."""
        count = min(2, last)
        found = _list_of(content, "axes", count)
        axes = [_int_of({"axes": each}, "axes", last) for each in found]
        if len(set(axes)) != count:
            raise MessageError("axes: rows and columns are the same axis")
        return axes

    def _shrink(self, windows: dict[int, tuple[int, int]]) -> None:
        """Halve windows until what they cost is within the limits."""
        array = self._array
        cell = cell_of(self._costs)
        last = picture_axes(array)[1]
        colours = prod(
            -(-n // c) for n, c in zip(array.shape[last:], cell.shape[last:], strict=True)
        )

        def touched(axis: int) -> int:
            start, stop = windows[axis]
            return (stop - 1) // cell.shape[axis] - start // cell.shape[axis] + 1

        while True:
            count = prod(map(touched, windows)) * colours
            if count * cell.nbytes <= MAX_NBYTES and count * cell.nchunks <= _MAX_CHUNKS:
                return
            axis = max(windows, key=touched)
            if touched(axis) == 1:
                raise ValueError(
                    f"chunks of {cell.nbytes} bytes are too large to be shown; index the array"
                )
            start, stop = windows[axis]
            windows[axis] = start, start + (stop - start) // 2


def _list_of(content: dict[str, Any], name: str, length: int) -> list[Any]:
    found = content.get(name)
    if not isinstance(found, list) or len(found) != length:
        raise MessageError(f"{name}: expected a list of {length} entries")
    return found


def _window_of(entry: object, length: int) -> tuple[int, int]:
    if not isinstance(entry, list) or len(entry) != 2:
        raise MessageError("windows: expected pairs of start and stop")
    start = _int_of({"windows": entry[0]}, "windows", length)
    stop = _int_of({"windows": entry[1]}, "windows", length + 1)
    if start >= stop:
        raise MessageError(f"windows: {start} to {stop} is empty")
    return start, stop


def _limits_of(content: dict[str, Any]) -> tuple[float, float] | None:
    found = content.get("limits")
    if found is None:
        return None
    low, high = _list_of(content, "limits", 2)
    for each in (low, high):
        if type(each) not in (int, float) or not abs(each) <= _MAX_FLOAT:
            raise MessageError(f"limits: expected two finite numbers, got {each!r:.40}")
    if low > high:
        raise MessageError(f"limits: {low} is larger than {high}")
    return float(low), float(high)


def _is_gray(content: dict[str, Any]) -> bool:
    name = content.get("colormap", COLORMAPS[0])
    if not isinstance(name, str) or name not in COLORMAPS:
        raise MessageError(f"colormap: expected one of {', '.join(COLORMAPS)}, got {name!r:.40}")
    return name == "gray"


def _range_text(low: float, high: float) -> str:
    return "" if low != low else f"{low:.6g} to {high:.6g}"
