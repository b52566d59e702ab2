"""Conversion of a caller's value to an ndarray, or an error with advice.

``numpy.asarray`` accepts nearly anything: it turns a mapping into an array of its keys and drops
the mask of a masked array or the column names of a table. Here such values are refused, because
the loss would be silent. Types of other libraries are recognised by name, so that none of them is
imported.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from typing import Any, Never

import numpy as np

from ..exceptions import BloscpackError
from ..types import AnyArray

# Number of entry names listed in a message.
_MAX_LISTED = 3

# Items of a sequence that have no parts that numpy would drop.
_BUFFERS = bytes | bytearray | memoryview
_ROUNDED_FROM = 2.0**53  # from here on floats are not all integers
_PLAIN = {bool, int, float, complex, str, bytes, type(None)}

_TABLES = {
    "astropy": {"Table"},
    "dask": {"DataFrame", "Series"},
    "pandas": {"DataFrame", "Series"},
    "polars": {"DataFrame", "LazyFrame", "Series"},
    "pyarrow": {"RecordBatch", "Table"},
}
_TABLE_ADVICE = {
    "astropy": "its units and metadata are not stored; use x.as_array()",
    "dask": "its index and column names are not stored; use x.to_dask_array(lengths=True), or save "
    "x.compute() by bloscpack.save(path, x)",
    "pandas": "its index and column names are not stored; use x.to_numpy(), or save a DataFrame by "
    "bloscpack.save(path, x)",
    "polars": "its column names and null values are not stored; use x.to_numpy()",
    "pyarrow": "its column names and null values are not stored; use x['name'].to_numpy()",
}


def is_of(value: object, library: str, *names: str) -> bool:
    """Return whether `value` is an instance of one of the classes `names` of `library`."""
    for kind in type(value).__mro__:
        if kind.__name__ in names and kind.__module__.partition(".")[0] == library:
            return True
    return False


def is_data_array(value: object) -> bool:
    """Return whether `value` is a DataArray of xarray."""
    return is_of(value, "xarray", "DataArray")


def is_dataset(value: object) -> bool:
    """Return whether `value` is a Dataset of xarray."""
    return is_of(value, "xarray", "Dataset")


def is_dask_array(value: object) -> bool:
    """Return whether `value` is an array of Dask."""
    return is_of(value, "dask", "Array")


def as_array(value: Any) -> AnyArray:
    """Return `value` as an array, preserving subclasses and copying only where numpy must.

    TypeError if it is not an array, or has parts that an array cannot store: a mapping, a table, a
    mask, a unit, other attributes of a subclass. So it is if an item of a sequence has such parts.
    """
    if type(value) is np.ndarray:
        return value
    if is_dask_array(value):
        value = value.compute()  # numpy would drop a mask of its blocks
    if not isinstance(value, np.ndarray | np.generic):
        _check_kind(value)
        if not hasattr(value, "__array__"):
            _check_items(value)
    array: AnyArray
    try:
        array = np.asanyarray(value)
    except (RuntimeError, TypeError) as err:
        if not hasattr(value, "__array__") or isinstance(err, BloscpackError):
            raise
        _refuse(value, str(err), err)  # a tensor with a gradient, or of a type that numpy lacks
    if type(array) is not np.ndarray:
        _check_subclass(value, array)
    # What numpy does not know, such as a sparse matrix, becomes one object.
    if array.dtype == object and not array.ndim and not isinstance(value, np.ndarray):
        _refuse(value, "use x.toarray()" if hasattr(value, "toarray") else "")
    if isinstance(value, Sequence):
        _check_kept(value, array)
    return array


def filled(value: Any, fill_value: Any) -> tuple[AnyArray, Any]:
    """Return a masked array with a value in place of its masked items, and the value for JSON.

    Raises
    ------
    TypeError
        It is not a masked array of numbers or text.
    ValueError
        The value is not one of its type, or an item that is not masked is equal to it.
    """
    if not isinstance(value, np.ma.MaskedArray) or value.dtype.kind not in "iufSU":
        raise TypeError(
            "fill_value is for a masked array of numpy with numbers or text, not "
            f"{type(value).__name__!r}; for xarray, set x.encoding['_FillValue']"
        )
    given = np.asarray(fill_value)
    with np.errstate(all="ignore"):
        fill = given.astype(value.dtype)
    is_float = given.dtype.kind in "iuf" and value.dtype.kind == "f"  # it is rounded
    if fill.ndim or not (np.isfinite(fill) == np.isfinite(given) if is_float else fill == given):
        raise ValueError(f"fill_value {fill_value!r:.80} is not a value of {value.dtype}")
    item = fill.item()
    found = np.asarray(value.filled(item))
    is_fill = (found == fill) | ((found != found) & bool(fill != fill))
    if (is_fill & ~np.ma.getmaskarray(value)).any():
        raise ValueError(
            f"an item that is not masked is equal to the fill_value {fill_value!r:.80}"
        )
    return found, item.decode() if isinstance(item, bytes) else item


def _check_kind(value: Any) -> None:
    """Check that storing a value that is not a numpy object as an array loses nothing."""
    if isinstance(value, str | os.PathLike):
        _refuse(
            value,
            "the path stands first: save(path, array); open a file with bloscpack.load; use "
            "numpy.array(x) to store text",
        )
    if isinstance(value, bytes):
        _refuse(
            value,
            "numpy drops trailing zero bytes; use numpy.frombuffer(x, 'u1'), or "
            "bloscpack.pack_bytes_to_file",
        )
    _check_labels(value)
    if is_of(value, "PIL", "Image"):
        _check_image(value)
    if is_mapping(value):
        advice = "bloscpack.savez stores all its arrays; to store one, use"
        _refuse(value, f"it is a mapping; {advice}: {_entries(value)}")
    if isinstance(value, AbstractSet):
        _refuse(value, "it has no order; use sorted(x)")
    if isinstance(value, Iterator):
        _refuse(value, "use numpy.stack(list(x)), or append its items to a bloscpack.Writer")


def _check_items(value: Any) -> None:
    """Check that no item of a sequence, at any depth, has parts that numpy would drop."""
    if not isinstance(value, Sequence) or isinstance(value, str | range | _BUFFERS):
        return
    plain = {
        kind
        for kind in set(map(type, value))
        if kind in _PLAIN or (_is_numpys(kind) and not issubclass(kind, np.ma.MaskedArray))
    }
    for item in value:
        if type(item) in plain:
            continue
        if isinstance(item, list | tuple):
            _check_items(item)
        elif isinstance(item, np.ndarray) or hasattr(item, "__array__"):
            as_array(item)


def _check_kept(value: Any, array: AnyArray) -> None:
    """Check that numpy has made no text of numbers, cut no text, and rounded no integer."""
    if array.dtype.kind in "SU":
        chosen = np.full(array.shape, True)
    elif array.dtype == "f8" and _most(array) >= _ROUNDED_FROM:
        chosen = np.abs(array) >= _ROUNDED_FROM
    else:
        return
    given = np.array(value, object)[chosen].tolist()
    for one, kept in zip(given, array[chosen].tolist(), strict=True):
        if one != kept:
            advice = "use numpy.array(x, dtype) to choose a type"
            _refuse(value, f"numpy makes {kept!r:.80} of {one!r:.80}, not without loss; {advice}")


def _most(array: AnyArray) -> float:
    """Return the greatest absolute value, without a copy of the array."""
    least, most = (each.reduce(array, None, initial=0) for each in (np.fmin, np.fmax))
    return max(-float(least), float(most))


def _check_subclass(value: object, array: AnyArray) -> None:
    """Check that an instance of a subclass of ndarray has no more than its items."""
    if isinstance(array, np.ma.MaskedArray) and _is_masked(array):
        raise TypeError(
            "the array has masked items, and a mask is not stored: use save(..., fill_value=), "
            "x.filled(fill_value), or store numpy.ma.getmaskarray(x) as a separate array"
        )
    unit = getattr(array, "unit", getattr(array, "units", None))
    if unit is not None and array.dtype.names is None:
        _refuse(value, f"its unit {str(unit)!r:.80} is not stored; use x.value")
    base = next(filter(_is_numpys, type(array).__mro__))
    own = getattr(np.ndarray.view(array, base), "__dict__", ())
    slots = (name for kind in type(array).__mro__ for name in vars(kind).get("__slots__", ()))
    for name in {**getattr(array, "__dict__", {}), **dict.fromkeys(slots)}:
        if name not in own and not _is_nothing(getattr(array, name, None)):
            advice = (
                "numpy.asarray(x) has its items as they are in memory"
                if array.dtype.names is None
                else "bloscpack.savez(path, {name: x[name] for name in x.dtype.names}) stores its "
                "fields"
            )
            _refuse(value, f"its {name!r:.80} is not stored, which may change its values; {advice}")


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping | Sequence | AbstractSet) and not value)


def _is_numpys(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "numpy"


def _check_labels(value: Any) -> None:
    """Check that a value has no column names, axis names or unit."""
    for library, names in _TABLES.items():
        if is_of(value, library, *names):
            _refuse(value, _TABLE_ADVICE[library])
    _check_column(value)
    if is_of(value, "xarray", "DataTree"):
        _refuse(value, "it has groups: x.to_zarr writes a store that bloscpack.convert copies")
    if is_dataset(value):
        advice = "bloscpack.savez stores all of them; to store one, use"
        _refuse(value, f"it has several variables; {advice}: {_entries(value.data_vars)}")
    if is_of(value, "xarray", "DataArray", "Variable", "IndexVariable"):
        _refuse(value, "its dims, coords and attrs are not stored; use x.to_numpy()")
    if is_of(value, "pint", "PlainQuantity", "Quantity"):
        _refuse(value, f"its unit {str(value.units)!r:.80} is not stored; use x.magnitude")


def _check_column(value: Any) -> None:
    """Check that a value of pandas or pyarrow has no name, missing values or categories."""
    if is_of(value, "pandas", "MultiIndex"):
        _refuse(value, "it has several levels; use x.to_frame(index=False)")
    if is_of(value, "pandas", "Index"):
        if value.name is not None:
            _refuse(value, "its name is not stored; use x.to_numpy()")
        _check_column(value.array)
    if is_of(value, "pandas", "BaseMaskedArray", "ArrowExtensionArray") and value.isna().any():
        advice = "use x.to_numpy(na_value=fill_value), or store x.isna() as a separate array"
        _refuse(value, f"its missing values are not stored: {advice}")
    if is_of(value, "pyarrow", "Array", "ChunkedArray") and value.null_count:
        _refuse(value, "its null values are not stored; use x.fill_null(fill_value)")
    if is_of(value, "pandas", "Categorical"):
        _refuse(value, "its categories are not stored; use x.to_numpy(), or x.codes")


def _check_image(value: Any) -> None:
    if getattr(value, "n_frames", 1) > 1:
        _refuse(
            value,
            f"it has {value.n_frames} frames, of which numpy reads one; use numpy.stack of "
            "numpy.asarray(frame.convert('RGB')) for each frame of PIL.ImageSequence.Iterator(x)",
        )
    if value.mode in ("P", "PA"):
        _refuse(value, "its palette is not stored; use x.convert('RGB')")


def is_mapping(value: Any) -> bool:
    """Return whether `value` has arrays by name: a dict, an npz file, a group of zarr or h5py."""
    # zarr groups have keys but are not registered as mappings.
    has_keys = callable(getattr(value, "keys", None)) and hasattr(value, "__getitem__")
    return isinstance(value, Mapping) or (has_keys and not hasattr(value, "__array__"))


def _entries(mapping: Any) -> str:
    """Return example expressions for the entries of a mapping, as text."""
    names: list[Any] = []
    with suppress(Exception):  # a closed or remote mapping may raise anything
        names = list(islice(mapping.keys(), _MAX_LISTED + 1))
    if not names:
        return "x['name']"
    listed = ", ".join(f"x[{name!r:.80}]" for name in names[:_MAX_LISTED])
    return listed + (", ..." if len(names) > _MAX_LISTED else "")


def _is_masked(array: np.ma.MaskedArray[Any, Any]) -> bool:
    mask = np.ma.getmask(array)
    if mask is np.ma.nomask:
        return False
    # The mask of a structured array is structured too: one boolean per field.
    return bool(np.frombuffer(np.asarray(mask).tobytes(), np.uint8).any())


def _refuse(value: object, advice: str, cause: Exception | None = None) -> Never:
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    name = kind.__qualname__ if library == "builtins" else f"{library}.{kind.__qualname__}"
    text = f"expected an array, got {name!r:.120}" + (f": {advice}" if advice else "")
    raise TypeError(text) from cause
