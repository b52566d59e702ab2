"""Text of an array, as numpy prints it, in bounded memory and a time linear in its items.

numpy needs the whole array, and the square of the time for one axis. But the widths of all items
follow from few of them: a first pass finds these, and a second one formats blocks beside them.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from math import prod

import numpy as np

from ...types import AnyArray, IntArray

# Items and bytes that are formatted at a time.
_BLOCK_ITEMS, _BLOCK_NBYTES = 1000, 1 << 20
# Separates formatted items: numpy escapes it inside of strings.
_SEPARATOR = "\0"


def text_lines(shape: tuple[int, ...], pieces: Callable[[], Iterable[AnyArray]]) -> Iterator[str]:
    """Yield the lines that `numpy.array2string` gives for an array, without a summary.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    pieces : callable
        Returns its pieces in C order; called twice.
    """
    if not shape or 0 in shape:
        for piece in pieces():
            yield from _text(piece, " ").split("\n")
        return
    extremes = None
    for block in _blocks(pieces()):
        both = _joined(extremes, block)
        extremes = both[sorted(_extremes(both))]
    yield from _wrapped(shape, _words(extremes, pieces()))


def _blocks(pieces: Iterable[AnyArray]) -> Iterator[AnyArray]:
    for piece in pieces:
        flat = piece.reshape(-1)
        step = max(1, min(_BLOCK_ITEMS, _BLOCK_NBYTES // max(1, flat.itemsize)))
        for start in range(0, len(flat), step):
            yield flat[start : start + step]


def _joined(first: AnyArray | None, block: AnyArray) -> AnyArray:
    return block if first is None else np.concatenate([first, block])


def _words(extremes: AnyArray | None, pieces: Iterable[AnyArray]) -> Iterator[str]:
    """Yield each formatted item."""
    skipped = 0 if extremes is None else len(extremes)
    for block in _blocks(pieces):
        text = _text(_joined(extremes, block), _SEPARATOR)
        yield from text[1:-1].split(_SEPARATOR)[skipped:]


def _text(array: AnyArray, separator: str) -> str:
    try:
        return np.array2string(
            array, threshold=sys.maxsize, max_line_width=sys.maxsize, separator=separator
        )
    except SystemError as err:  # numpy raises it for a code point beyond Unicode
        raise ValueError(f"the items cannot be printed: {err}") from err


def _wrapped(shape: tuple[int, ...], words: Iterable[str]) -> Iterator[str]:
    """Yield the lines of an array that is not empty."""
    ndim = len(shape)
    limit = np.get_printoptions()["linewidth"] - ndim
    # Items of a row, of a matrix, and so on: a bracket is closed behind each.
    sizes = [prod(shape[axis:]) for axis in reversed(range(ndim))]
    line = "[" * ndim
    for count, word in enumerate(words, 1):
        if len(line) > ndim and len(line) + len(word) > limit:
            yield line.rstrip()
            line = " " * ndim
        line += word
        closed = sum(not count % size for size in sizes)
        if not closed:
            line += " "
            continue
        yield line + "]" * closed
        if closed < ndim:
            yield from [""] * (closed - 1)
            line = " " * (ndim - closed) + "[" * closed


def _extremes(values: AnyArray) -> set[int]:
    """Return the indices of items from which the widths of all follow: a few for each field."""
    each = prod(values.shape[1:])
    values = values.reshape(-1)
    kind = values.dtype.kind
    if values.dtype.names is not None:
        found = {index for name in values.dtype.names for index in _extremes(values[name])}
    elif kind == "c":
        found = _extremes(values.real) | _extremes(values.imag)
    elif kind == "f":
        found = {*_extreme_floats(values)}
    elif kind in "iumM":
        is_time = values == values  # NaT is not
        found = {*_ends(np.flatnonzero(is_time), values), *_first(~is_time)}
    else:
        found = set()
    return {index // each for index in found}


def _extreme_floats(values: AnyArray) -> Iterator[int]:
    """Yield indices of floats: limits, signs, special values, and most digits of each notation."""
    is_finite = np.isfinite(values)
    finite = np.flatnonzero(is_finite)
    yield from _first(~is_finite)
    yield from _first(np.isneginf(values))
    yield from _first(is_finite & np.signbit(values))
    yield from _ends(finite, values)
    yield from _ends(np.flatnonzero(is_finite & (values != 0)), np.abs(values))
    precision = np.get_printoptions()["precision"]
    for write in (np.format_float_positional, np.format_float_scientific):
        most, longest = -1, None
        for index in finite.tolist():
            text = write(values[index], precision=precision, trim=".")
            digits = len(text.partition("e")[0].partition(".")[2])
            if digits > most:
                most, longest = digits, index
            if digits == precision:
                break
        if longest is not None:
            yield longest


def _first(chosen: AnyArray) -> list[int]:
    return [int(index) for index in np.flatnonzero(chosen)[:1]]


def _ends(indices: IntArray, values: AnyArray) -> list[int]:
    """Return which of some indices have the least and the greatest value."""
    chosen = values[indices]
    return [int(indices[at]) for at in (chosen.argmin(), chosen.argmax())] if len(chosen) else []
