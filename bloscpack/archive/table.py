"""Tables of pandas in an archive: each column is an array, and the index their coordinate."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Never

import numpy as np

from ..array.arraylike import is_of
from ..array.attrs import plain
from ..array.axislabels import COORDINATE, KINDS, Coord, Labels, Store, is_decoded_by, pack_labels
from ..exceptions import UnsupportedError
from ..parallel.imports import importing
from ..types import AnyArray

# Axis of an index without a name, as xarray calls it.
_NAMELESS = "index"
_MAX_LISTED = 5


class Column(NamedTuple):
    """Column of a table."""

    values: AnyArray
    axis: Coord  # its index

    def packed_labels(self, name: str, store: Store) -> dict[str, Any]:
        """Return the attrs with which the column is stored; `store` is for a long index."""
        dim = self.axis.dims[0]
        return pack_labels(name, [dim], self.values.shape, {dim: self.axis}, {}, store)


def is_table(value: object) -> bool:
    """Return whether `value` is a DataFrame of pandas."""
    return is_of(value, "pandas", "DataFrame")


def columns_of(table: Any) -> Iterator[tuple[str, Column]]:
    """Yield the names and columns of a table; raises as `check_table` does."""
    check_table(table)
    index = Coord((_axis_of(table),), table.index.to_numpy(), {})
    for number, name in enumerate(table.columns):
        yield name, Column(table.iloc[:, number].to_numpy(), index)


def check_table(table: Any) -> None:
    """Check that an archive can hold a table.

    Raises
    ------
    TypeError
        A part of the table would be lost.
    """
    names = [*table.columns]
    if not names:
        raise TypeError("the table has no columns: nothing to save")
    if type(table).__module__.partition(".")[0] != "pandas":
        raise TypeError(
            f"a {type(table).__name__} has more than a table: save pandas.DataFrame(x), without it"
        )
    if others := [each for each in names if not isinstance(each, str)]:
        raise TypeError(f"columns are named {_listed(others)}, not by text: x.rename(columns=str)")
    if len({*names}) != len(names):
        twice = [name for number, name in enumerate(names) if name in names[:number]]
        raise TypeError(f"several columns are named {_listed(twice)}: rename all but one")
    if table.columns.name is not None:
        raise TypeError(
            f"the name {table.columns.name!r:.80} of its columns is not stored: use "
            "x.rename_axis(columns=None)"
        )
    dtypes = zip(names, table.dtypes, strict=True)
    if others := [name for name, dtype in dtypes if not _is_column(dtype)]:
        raise TypeError(
            f"columns {_listed(others)} have no type of numpy: convert them by x.astype, or leave "
            "them out by x.drop(columns=...)"
        )
    _check_index(table)


def _check_index(table: Any) -> None:
    index = table.index
    if index.nlevels > 1:
        raise TypeError("an index of several levels is not stored: use x.reset_index()")
    # Text is of a type of pandas, or objects.
    if not isinstance(index.dtype, np.dtype) and str(index.dtype) not in ("str", "string"):
        raise TypeError(f"an index of type {index.dtype} is not stored: convert it by x.set_index")
    dim = _axis_of(table)
    if not isinstance(dim, str) or dim in table.columns or index.name == _NAMELESS:
        raise TypeError(
            f"the index cannot be stored by the name {index.name!r:.80}, which is not text, the "
            "name of a column, or that of an index without a name: use x.rename_axis('another')"
        )


def _axis_of(table: Any) -> Any:
    """Return the name of the axis that the index of a table is along."""
    return _NAMELESS if table.index.name is None else table.index.name


def to_dataframe(arrays: Mapping[str, Any], attrs: Mapping[str, Any]) -> Any:
    """Return the arrays and attrs of an archive as a DataFrame; see `Archive.to_dataframe`."""
    try:
        with importing:  # on use: few programs have tables
            import pandas
    except ImportError as err:
        raise ImportError(f"{err}: pip install pandas", name=err.name) from err
    columns: dict[str, AnyArray] = {}
    found: tuple[Any, ...] | None = None
    index: Coord | None = None
    for name, array in arrays.items():
        described = plain(array.attrs)
        if described.get(COORDINATE) is True:
            continue
        labels = Labels.unpack(described, array.shape, open_array=arrays.__getitem__)
        if array.ndim != 1 or not _is_column(array.dtype):
            _refuse(name, f"has shape {array.shape} and dtype {array.dtype}")
        if not labels.is_decoded and is_decoded_by(described):
            _refuse(name, "has attrs by which its items are decoded")
        if others := labels.coords.keys() - labels.dims:
            _refuse(name, f"has the coordinate {min(others)!r:.80} beside its index")
        place = array.shape, labels.dims, described.get("coords")
        found = place if found is None else found
        if place != found:
            _refuse(name, "has another length or index than the first array")
        index = labels.coords.get(labels.dims[0])
        columns[name] = array[...]
    if found is None:
        raise UnsupportedError("the archive has no arrays to make columns of")
    table = pandas.DataFrame(columns)
    if index is not None:
        dim = index.dims[0]
        table.index = pandas.Index(index.values, name=None if dim == _NAMELESS else dim)
    table.attrs = plain(attrs)
    return table


def _refuse(name: str, why: str) -> Never:
    raise UnsupportedError(
        f"array {name!r:.80} {why}, and cannot be a column: use "
        "xarray.open_dataset(path).to_dataframe(), or take arrays by name"
    )


def _is_column(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in KINDS


def _listed(names: list[Any]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(f"{name!r:.80}" for name in names[:_MAX_LISTED]) + more
