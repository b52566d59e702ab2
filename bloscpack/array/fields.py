"""Reading single fields of a structured array, a few chunks at a time."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..container.reader import Container
from ..types import AnyArray
from .dtype import Dtype
from .gather import as_target, gather
from .layout import Description, rows_of_whole_chunks
from .selection import parse_selection

# Decoded size of the rows that are held in memory at a time, in bytes.
_BLOCK_NBYTES = 16 << 20

Names = str | list[str]


def field_names(index: Any, dtype: Dtype) -> Names | None:
    """Return `index` if it is a field name or a list of names, else None.

    Raises
    ------
    ValueError, KeyError
        A field does not exist: ValueError for one name, KeyError for a list, as in numpy.
    """
    if dtype.names is None or dtype.fields is None:
        return None
    if isinstance(index, str):
        if index not in dtype.fields:
            raise ValueError(_missing(index, dtype))
        return index
    if not isinstance(index, list) or not index or not all(isinstance(n, str) for n in index):
        return None
    for name in index:
        if name not in dtype.fields:
            raise KeyError(_missing(name, dtype))
    if len(set(index)) != len(index):
        raise ValueError(f"a field is listed twice in {str(index)[:200]}")
    return index


def _missing(name: str, dtype: Dtype) -> str:
    return f"no field named {name!r:.80}; the fields are {', '.join(dtype.names or ())[:400]}"


def gather_fields(
    container: Container,
    described: Description,
    names: Names,
    *,
    out: Any = None,
    nthreads: int | None = None,
) -> AnyArray:
    """Return fields of all items, in a new array or in `out`; raises the errors of `gather`.

    A new array has the memory order of the file. Besides the result, about 16 MiB of rows are in
    memory.
    """
    dtype, shape, is_fortran = described
    found: Dtype = dtype[names]
    inner, base = (found.subdtype or (found, ()))[::-1]
    full = (*shape, *inner)
    if out is not None:
        result = as_target(out, full, base)
    else:
        container.check_size(container.nbytes)
        # Zeros, because a dtype of several fields has gaps where the other fields were.
        result = np.zeros(full, base, order="F" if is_fortran else "C")
        if result.dtype != base:  # np.zeros turns S0 into S1
            result = np.ndarray(full, base)
    for rows in _blocks(container, described):
        chosen = parse_selection(rows, shape)
        result[rows] = gather(container, described, chosen, nthreads=nthreads)[names]
    return result


def _blocks(container: Container, described: Description) -> Iterator[tuple[Any, ...]]:
    """Yield selections of rows that are contiguous in the file, in whole chunks where possible."""
    dtype, shape, is_fortran = described
    if not shape or 0 in shape or not dtype.itemsize:
        yield (Ellipsis,)
        return
    axis = len(shape) - 1 if is_fortran else 0
    nrows = shape[axis]
    row_nbytes = container.nbytes // nrows
    wanted = max(1, _BLOCK_NBYTES // row_nbytes)
    whole = rows_of_whole_chunks(container.chunk_size, container.nchunks, row_nbytes, nrows)
    step = wanted // whole * whole or wanted
    for start in range(0, nrows, step):
        yield (slice(None),) * axis + (slice(start, min(start + step, nrows)),)
