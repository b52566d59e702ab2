"""Reading around damage: arrays of which some chunks cannot be read.

Only on request (`on_error`). A chunk is lost if reading it raises an error. The items of lost
chunks are set to the caller's `fill_value`, or the indices along the first axis that need them are
left out; a warning lists the chunks. Storage failures (`OSError`) and replaced files do not count
as damage and are raised.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..container.reader import Container
from ..exceptions import BloscpackError, TruncatedError
from ..format.codec import CHUNK_HEADER_SIZE
from ..notice import notice
from ..types import AnyArray
from .arraymetadata import Description, new_array
from .dtype import Dtype
from .gather import Gathering, is_damage
from .selection import Selection

ON_ERROR = ("raise", "fill", "skip")

# Memory allocated for a result is at most this many times the size of the file plus that of its
# readable chunks, decoded. A small result is always allocated: few chunks may be all of a file.
_MAX_LOSS = 16
_SMALL_NBYTES = 64 << 20
# Lost chunks listed in a warning.
_MAX_LISTED = 3


def check_on_error(on_error: str, allowed: tuple[str, ...] = ON_ERROR) -> None:
    """Raise ValueError unless `on_error` is one of the `allowed` words."""
    if on_error not in allowed:
        words = f"{', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"
        raise ValueError(f"on_error must be {words}, not {on_error!r}")


def gather_rest(
    container: Container,
    described: Description,
    chosen: Selection,
    *,
    out: AnyArray | None,
    nthreads: int | None,
    on_error: str,
    fill_value: Any,
) -> AnyArray:
    """Return the items of a selection, except those of chunks that cannot be read.

    Parameters
    ----------
    container, described, chosen, out, nthreads
        As for `gather.gather`.
    on_error : {"fill", "skip"}
        "fill" sets the items of lost chunks to `fill_value`; "skip" leaves out each index along
        the first axis of the result that needs a lost chunk.
    fill_value : scalar
        As for `fill_item`.

    Raises
    ------
    ValueError, TypeError
        `fill_value` does not fit, or "skip" is used with `out` or without an axis to shorten.
    FormatError
        Too little of the file can be read to allocate memory for the result.
    """
    dtype, _, is_fortran = described
    item = fill_item(fill_value, dtype) if on_error == "fill" else b""
    if on_error == "skip" and out is not None:
        raise ValueError("on_error='skip' changes the shape of the result: out must be None")
    if on_error == "skip" and not chosen.shape:
        raise ValueError("on_error='skip' needs a selection with an axis to leave indices out of")
    _check_left(container, chosen.ndistinct * dtype.itemsize)
    target = None if out is None else chosen.spread(out)
    if target is None:
        target = new_array(chosen.lengths, dtype, is_fortran)
    lost: dict[int, str] = {}
    gathering = Gathering(container, described, chosen.sides, target, nthreads, lost)
    gathering.read()
    if lost:
        _warn(container, described, lost, "filled" if on_error == "fill" else "left out")
    if lost and on_error == "fill":
        gathering.fill_lost(item)
    result: AnyArray = chosen.arrange(target, out)
    if lost and on_error == "skip":
        result = result[_readable_indices(gathering, chosen)]
    return result


def _readable_indices(
    gathering: Gathering, chosen: Selection
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a mask of the indices along the first axis of the result that need no lost chunk."""
    if chosen.first < 0:  # a new axis: its only index needs every chunk
        return np.zeros(chosen.shape[0], bool)
    places = gathering.lost_places(chosen.first)
    # A list of several dimensions is one axis of the array and several of the result.
    return np.logical_not(places.reshape(chosen.shape[0], -1).any(axis=1))


def iter_readable_chunks(container: Container, described: Description) -> Iterator[bytes]:
    """Yield the decoded bytes of each chunk that can be read, in order."""
    _check_left(container, 0)
    lost: dict[int, str] = {}
    for chunk in range(container.nchunks):
        try:
            content = container.read_chunk(chunk)
        except BloscpackError as err:
            if not is_damage(err):
                raise
            lost[chunk] = str(err.args[0])
            if len(lost) == 1:  # warn at once, as the caller may not iterate to the end
                _warn(container, described, lost, "left out")
        else:
            yield content
    if not lost:
        container.stored.check_end()
    elif len(lost) > 1:
        _warn(container, described, lost, "left out")


def _check_left(container: Container, nbytes: int) -> None:
    """Check that enough of the file can be read to allocate `nbytes` bytes for the result."""
    size = container.source.size()
    smallest = CHUNK_HEADER_SIZE + container.header.checksum.nbytes
    possible = max(0, size - container.data_offset) // smallest
    left = max(size, _SMALL_NBYTES // _MAX_LOSS)
    if nbytes > _MAX_LOSS * left:
        for chunk in range(min(possible, container.nchunks)):
            try:
                container.fetch(chunk)
            except BloscpackError as err:
                if not is_damage(err):
                    raise
            else:
                left += container.chunk_nbytes(chunk)
            if nbytes <= _MAX_LOSS * left:
                break
    if nbytes > _MAX_LOSS * left or container.nchunks > size:
        raise TruncatedError(
            f"the header declares {container.nchunks} chunks of {container.nbytes} bytes, but too "
            f"few of the {size} bytes of the file can be read to allocate memory for them"
        ).at(path=container.name)


def _warn(container: Container, described: Description, lost: dict[int, str], done: str) -> None:
    """Issue one warning that lists the lost chunks; `done` is "filled" or "left out"."""
    listed = [
        f"chunk {chunk} ({_place(container, described, chunk)}): {lost[chunk]}"
        for chunk in sorted(lost)[:_MAX_LISTED]
    ]
    more = f"; and {len(lost) - _MAX_LISTED} more" if len(lost) > _MAX_LISTED else ""
    notice(
        "%s: %d of %d chunks cannot be read and %s %s: %s%s",
        container.name or "memory",
        len(lost),
        container.nchunks,
        "is" if len(lost) == 1 else "are",
        done,
        "; ".join(listed),
        more,
    )


def _place(container: Container, described: Description, chunk: int) -> str:
    _, shape, is_fortran = described
    if container.grid is not None:
        sides = (f"{side.start}:{side.stop}" for side in container.grid.region(chunk))
        return f"indices [{', '.join(sides)}]"
    first = chunk * container.chunk_size
    last = first + container.chunk_nbytes(chunk)
    place = f"bytes {first} to {last}"
    if shape and container.nbytes:
        axis = len(shape) - 1 if is_fortran else 0
        row = container.nbytes // shape[axis]
        place += f", indices {first // row} to {-(-last // row)} of axis {axis}"
    return place


def fill_item(value: Any, dtype: Dtype) -> bytes:
    """Return the bytes of `value` as an item of `dtype`.

    0 means an item of zero bytes for every dtype: empty text, the first instant. Structured and
    void dtypes accept only 0.

    Raises
    ------
    TypeError
        `value` is of another kind than the dtype.
    ValueError
        `value` is not a scalar, or cannot be represented: out of range, a fraction, text too long.
    """
    scalar = np.asarray(value)
    if np.ma.is_masked(value):
        raise ValueError("fill_value must not be masked")
    if scalar.ndim:
        raise ValueError(f"fill_value must be a scalar, not of shape {scalar.shape}")
    if scalar.dtype.kind in "iu" and scalar == 0:
        return bytes(dtype.itemsize)
    if dtype.type is np.void:
        raise ValueError(f"fill_value must be 0 for items of dtype {dtype}, not {value!r}")
    # numpy makes Python integers beyond 64 bits objects.
    is_number = scalar.dtype.kind != "O" or isinstance(value, int)
    if not is_number or not _is_kin(scalar.dtype, dtype):
        raise TypeError(f"fill_value {value!r} is not of the kind of dtype {dtype}")
    try:
        with np.errstate(all="ignore"):
            item = scalar.astype(dtype)
    except (OverflowError, TypeError, ValueError) as err:
        raise ValueError(f"fill_value {value!r} does not fit dtype {dtype}: {err}") from err
    if not _is_held(scalar, item):
        raise ValueError(f"fill_value {value!r} does not fit dtype {dtype}")
    return item.tobytes()


def _is_kin(given: Dtype, dtype: Dtype) -> bool:
    """Return whether a value of dtype `given` can stand for one of `dtype`."""
    kind = dtype.kind
    if kind in "SUMm":
        return given.kind == kind
    if kind == "c":
        return given.kind in "biufcO"
    # Numbers of ml_dtypes are of kind V.
    return given.kind in "biufO" or (given.kind == "V" and given.type is not np.void)


def _is_held(scalar: AnyArray, item: AnyArray) -> bool:
    """Return whether `item` represents `scalar`: exactly, or rounded for floating point."""
    kind = item.dtype.kind
    if kind in "mM":
        return bool(np.isnat(scalar)) or bool(item == scalar)
    if kind in "biuSU":
        return bool(item == scalar)
    given, held = complex(scalar[()]), complex(item[()])
    return bool(np.isfinite(held)) or not np.isfinite(given)
