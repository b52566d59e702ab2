"""Fields of a structured array, picked from a few chunks at a time."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..container.reader import Container
from ..types import AnyArray
from .dtype import Dtype
from .gather import as_target, gather
from .layout import Description, rows_of_whole_chunks
from .selection import parse_selection

# Decoded bytes of the rows that fields are picked from at a time.
_BLOCK_NBYTES = 16 << 20

Names = str | list[str]


def field_names(index: Any, dtype: Dtype) -> Names | None:
    """Return the name or names of fields that `index` is; None if it is something else.

    Raises
    ------
    ValueError, KeyError
        There is no such field: for one name and for a list, as numpy has it.
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
        raise ValueError(f"a field is named twice in {str(index)[:200]}")
    return index


def _missing(name: str, dtype: Dtype) -> str:
    return f"no field of name {name!r:.80}; the fields are {', '.join(dtype.names or ())[:400]}"


def gather_fields(
    container: Container,
    described: Description,
    names: Names,
    *,
    out: Any = None,
    nthreads: int | None = None,
) -> AnyArray:
    """Return fields of all items, new or in `out`; errors as for `gather`.

    The result is in the order of the file. In memory there are some chunks besides.
    """
    dtype, shape, is_fortran = described
    found: Dtype = dtype[names]
    inner, base = (found.subdtype or (found, ()))[::-1]
    full = (*shape, *inner)
    if out is not None:
        result = as_target(out, full, base)
    else:
        container.check_size(container.nbytes)
        # Zeros: several fields leave the bytes of the others between them.
        result = np.zeros(full, base, order="F" if is_fortran else "C")
        if result.dtype != base:  # numpy makes S0 a character long
            result = np.ndarray(full, base)
    for rows in _blocks(container, described):
        chosen = parse_selection(rows, shape)
        result[rows] = gather(container, described, chosen, nthreads=nthreads)[names]
    return result


def _blocks(container: Container, described: Description) -> Iterator[tuple[Any, ...]]:
    """Yield selections of rows that lie together in the file, of whole chunks where possible."""
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
