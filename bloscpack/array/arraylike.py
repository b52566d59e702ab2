"""Turn a value that a caller wants stored into an ndarray, or refuse it with advice.

``numpy.asarray`` takes nearly anything: it makes an array of the keys of a mapping, drops the mask
of a masked array and the columns of a table. What would be lost here is refused instead. Types of
other libraries are recognised by name, so that none of them is imported.
"""

import os
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from typing import Any, Never

import numpy as np

from ..types import AnyArray

# Names of entries that a message lists.
_MAX_LISTED = 3

_TABLES = {
    "pandas": {"DataFrame", "Series"},
    "polars": {"DataFrame", "LazyFrame", "Series"},
    "pyarrow": {"RecordBatch", "Table"},
}
_TABLE_ADVICE = {
    "pandas": "its index and column names are not stored; use x.to_numpy()",
    "polars": "its column names and null values are not stored; use x.to_numpy()",
    "pyarrow": "its column names and null values are not stored; use x['name'].to_numpy()",
}


def is_of(value: object, library: str, *names: str) -> bool:
    """Return whether `value` is an instance of a class of `library` called one of `names`."""
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] == library
        for kind in type(value).__mro__
    )


def is_data_array(value: object) -> bool:
    """Return whether `value` is a DataArray of xarray."""
    return is_of(value, "xarray", "DataArray")


def is_dask_array(value: object) -> bool:
    """Return whether `value` is an array of Dask."""
    return is_of(value, "dask", "Array")


def as_array(value: Any) -> AnyArray:
    """Return `value` as an array, its subclass kept; a copy only where numpy makes one.

    Raises
    ------
    TypeError
        It is not an array, or holds more than an array does: a mapping, a table, a mask, a unit.
    """
    if type(value) is np.ndarray:
        return value
    if not isinstance(value, np.ndarray | np.generic):
        _check_kind(value)
    array: AnyArray = np.asanyarray(value)
    if isinstance(array, np.ma.MaskedArray) and _is_masked(array):
        raise TypeError(
            "the array has masked items, and a mask is not stored: use x.filled(fill_value), or "
            "store numpy.ma.getmaskarray(x) as an array of its own"
        )
    unit = getattr(array, "unit", getattr(array, "units", None))
    if unit is not None and type(array) is not np.ndarray and array.dtype.names is None:
        _refuse(value, f"its unit {str(unit)!r:.80} is not stored; use x.value")
    if array.dtype == object and not array.ndim and not isinstance(value, np.ndarray):
        _refuse(value, "use x.toarray()" if hasattr(value, "toarray") else "")
    return array


def _check_kind(value: Any) -> None:
    """Check that a value of another class than numpy's is not more than an array."""
    if isinstance(value, str | os.PathLike):
        _refuse(value, "open a file with bloscpack.load; use numpy.array(x) to store text")
    if isinstance(value, bytes):
        _refuse(
            value,
            "numpy drops zero bytes at the end of it; use numpy.frombuffer(x, 'u1'), or "
            "bloscpack.pack_bytes_to_file",
        )
    _check_labels(value)
    if is_of(value, "PIL", "Image"):
        _check_image(value)
    if _is_mapping(value):
        _refuse(value, f"it is a mapping; use one of its arrays: {_entries(value)}")
    if isinstance(value, AbstractSet):
        _refuse(value, "it has no order; use sorted(x)")
    if isinstance(value, Iterator):
        _refuse(value, "use numpy.stack(list(x)), or append its items to a bloscpack.Writer")


def _check_labels(value: Any) -> None:
    """Check that a value has no names of columns or axes, nor a unit."""
    for library, names in _TABLES.items():
        if is_of(value, library, *names):
            _refuse(value, _TABLE_ADVICE[library])
    if is_of(value, "xarray", "Dataset"):
        _refuse(value, f"it has several variables; use one of them: {_entries(value.data_vars)}")
    if is_of(value, "xarray", "DataArray", "Variable", "IndexVariable"):
        _refuse(value, "its dims, coords and attrs are not stored; use x.to_numpy()")
    if is_of(value, "pint", "PlainQuantity", "Quantity"):
        _refuse(value, f"its unit {str(value.units)!r:.80} is not stored; use x.magnitude")


def _check_image(value: Any) -> None:
    if getattr(value, "n_frames", 1) > 1:
        _refuse(
            value,
            f"it has {value.n_frames} frames, of which numpy reads one; use numpy.stack of "
            "numpy.asarray(frame.convert('RGB')) for each frame of PIL.ImageSequence.Iterator(x)",
        )
    if value.mode in ("P", "PA"):
        _refuse(value, "its palette is not stored; use x.convert('RGB')")


def _is_mapping(value: Any) -> bool:
    # Groups of zarr have keys, and are not registered as mappings.
    has_keys = callable(getattr(value, "keys", None)) and hasattr(value, "__getitem__")
    return isinstance(value, Mapping) or (has_keys and not hasattr(value, "__array__"))


def _entries(mapping: Any) -> str:
    """Return how to get some entries of a mapping, as text."""
    names: list[Any] = []
    with suppress(Exception):  # reading a closed or remote one fails in its own ways
        names = list(islice(mapping.keys(), _MAX_LISTED + 1))
    if not names:
        return "x['name']"
    listed = ", ".join(f"x[{name!r:.80}]" for name in names[:_MAX_LISTED])
    return listed + (", ..." if len(names) > _MAX_LISTED else "")


def _is_masked(array: np.ma.MaskedArray[Any, Any]) -> bool:
    mask = np.ma.getmask(array)
    if mask is np.ma.nomask:
        return False
    # That of a structured array has a field for each of its fields, all of booleans.
    return bool(np.frombuffer(np.asarray(mask).tobytes(), np.uint8).any())


def _refuse(value: object, advice: str) -> Never:
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    name = kind.__qualname__ if library == "builtins" else f"{library}.{kind.__qualname__}"
    raise TypeError(f"expected an array, got {name!r:.120}" + (f": {advice}" if advice else ""))
