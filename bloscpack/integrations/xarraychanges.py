"""Appending variables of xarray to those of a file, and writing them in a region of it.

Everything is checked, and written uncommitted, before one commit: after an error, the file is as it
was. `dataset_of` opens the file as xarray does, so that variables are compared as users see them;
they are encoded as those of the file are.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Literal, NamedTuple

import numpy as np

from ..archive.reader import Archive
from ..archive.table import check_table, is_table
from ..array.array import Array
from ..array.arraylike import is_dask_array
from ..array.attrs import MEANING, coords_in, plain
from ..array.axislabels import (
    OF_SCALING,
    Coord,
    Labels,
    as_text,
    grown_entry,
    is_decoded_by,
)
from ..array.cfencoding import encoded_items
from ..array.dtype import is_unchanged
from ..filetypes.open import open as open_file
from ..storage.file import Place
from ..storage.protocol import errors_at
from ..types import AnyArray
from .xarraydataset import dataset_of, variable_name, xr

Region = Literal["auto"] | Mapping[str, slice | Literal["auto"]]

# Decoded size of the items that are added at once.
_PART_NBYTES = 16 << 20
# Rows of the chunks of a new coordinate: each append writes the last chunk again.
_COORD_ROWS = 8192
# Encoding of a variable of which the items are encoded.
_CODING = {"dtype", "_FillValue", "missing_value", "_Unsigned", "units", "calendar", *OF_SCALING}


class _Target(NamedTuple):
    """File that is open for changes.

    Attributes
    ----------
    dataset : Dataset
        Variables as of before the changes.
    arrays : dict of str to Array
        The arrays that change, by name.
    variables : dict of str to str
        The names of their variables, of which one may be None.
    archive : Archive or None
        The archive that has the arrays.
    """

    dataset: xr.Dataset
    arrays: dict[str, Array]
    variables: dict[str, Any]
    archive: Archive | None

    def dataset_like(self, data: Any) -> xr.Dataset:
        """Return a Dataset of a DataArray, whose name is not needed for a file of one array."""
        if isinstance(data, xr.Dataset):
            return data
        if is_table(data):
            check_table(data)
            return data.to_xarray()
        if not isinstance(data, xr.DataArray):
            raise TypeError(f"not a Dataset or DataArray of xarray: {type(data).__name__!r}")
        name = next(iter(self.arrays)) if self.archive is None else data.name
        if name is None:
            raise ValueError("the array has no name, and the file has several arrays")
        return data.to_dataset(name=name)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[_Target]:
    with ExitStack() as stack:
        opened: Any = stack.enter_context(open_file(path, "r+"))
        stack.enter_context(errors_at(opened.name))
        if isinstance(opened, Archive):
            arrays = dict(opened)
            variables: dict[str, Any] = {name: variable_name(name) for name in arrays}
            for array in arrays.values():
                for key, entry in coords_in(array.attrs).items():
                    if isinstance(entry, dict) and "array" in entry:
                        variables[entry["array"]] = key
            yield _Target(dataset_of(opened), arrays, variables, opened)
        else:
            # Coordinates may be other arrays of an archive, which only a reader opens.
            dataset = dataset_of(stack.enter_context(Array(path)))
            name = str(next(iter(dataset.data_vars)))
            yield _Target(dataset, {name: opened}, {name: name}, None)


def append(path: str | os.PathLike[str], data: Any, dim: str | None = None) -> None:
    """Append variables and coordinates of xarray to those of a file, in one commit.

    Parameters
    ----------
    path : str or PathLike
        A file that `save` has written of a Dataset or DataArray, or `convert` of netCDF, HDF5 or
        Zarr.
    data : xarray.Dataset, xarray.DataArray or pandas.DataFrame
        As many variables along `dim` as the file has, in any order of axes. Variables without this
        axis may be left out, and must be equal to those of the file. Those of Dask are computed by
        chunks along `dim`; the scheduler must use threads.
    dim : str, optional
        The axis that grows. By default the unlimited one of the file; if there is not just one, the
        one along which lengths or coordinates differ from those of the file.

    Raises
    ------
    ValueError
        `dim` is missing; variables are missing or not in the file; other axes, coordinates, or
        units differ; the coordinate along `dim` repeats or goes back; items do not fit the
        encoding of the file; the chunks of an array do not let this axis grow.
    TypeError
        The types of items differ, or `data` is not a Dataset or DataArray.
    LockedError
        Another writer has the file open.
    FormatError, UnsupportedError, OSError
        The file is damaged, has labels that xarray cannot have, or cannot be written.

    Notes
    -----
    After an error, the file is as it was. Values along `dim` must increase if all of the file do,
    or decrease, and must differ if they do neither. A gap is allowed: evenly spaced coordinates
    are stored as values from then on. The attrs of the file stay, and others are ignored; those
    that give items their meaning, such as ``units``, must be equal. Items that xarray decodes,
    such as by ``scale_factor`` or units of time, are encoded as those of the file.

    Chunks of whole rows let the first axis grow (the last one in Fortran order), and a chunk grid
    any axis.

    Examples
    --------
    >>> import bloscpack as bp, xarray as xr
    >>> days = xr.Dataset({"heat": ("day", [1.5, 2.5, 3.5])}, {"day": [10, 11, 12]})
    >>> bp.save("fields.blp", days.isel(day=[0, 1]))
    >>> bp.append("fields.blp", days.isel(day=[2]), dim="day")
    >>> xr.open_dataset("fields.blp", engine="bloscpack").identical(days)
    True
    """
    if Place.of(path).inner:
        raise ValueError("arrays of an archive grow together: append a Dataset to the archive")
    with _opened(path) as file:
        new, old = file.dataset_like(data), file.dataset
        dim = _axis(old, new, dim)
        _check_variables(old, new, dim)
        if dim in old.coords:
            _check_order(dim, old.coords[dim].values, new.coords[dim].values)
        growing = []
        for name, array in file.arrays.items():
            known = old.variables[file.variables[name]]
            if dim in known.dims:
                axis = known.get_axis_num(dim)
                _check_growth(file.variables[name], array, dim, axis)
                growing.append((name, array, known, axis))
        if not new.sizes[dim]:
            return
        # The labels of an array are those of all arrays before any of them grows.
        known_coords: dict[str, dict[str, Any]] = {}
        labels = []
        for name, array, known, axis in growing:
            group, dims = name[: name.rfind("/") + 1], [*known.sizes.items()]
            same = json.dumps([group, dims, axis, coords_in(array.attrs)])  # most arrays share them
            if same not in known_coords:
                known_coords[same] = _grown_coords(file, name, axis, new)
            labels.append(known_coords[same])
        for (name, array, known, axis), coords in zip(growing, labels, strict=True):
            added = new.variables[file.variables[name]].transpose(*known.dims)
            _grow(file.variables[name], array, axis, known, added)
            if coords != coords_in(array.attrs):
                array.attrs["coords"] = coords


def write(path: str | os.PathLike[str], data: Any, region: Region) -> None:
    """Write variables in place of those in a region of a file, in one commit."""
    with _opened(path) as file:
        new = file.dataset_like(data)
        names = [*map(str, new.data_vars)]
        if not names or not file.arrays.keys() >= {*names}:
            raise ValueError(
                f"the variables to write are {names!s:.200}, the file has {[*file.arrays]!s:.200}"
            )
        if region == "auto":
            region = dict.fromkeys(map(str, new.dims), "auto")
        known = {*file.dataset.dims, *new.dims}
        if not isinstance(region, Mapping) or not region.keys() <= known:
            raise ValueError(f"region must be 'auto' or a mapping of dims: {region!r:.80}")
        places = {}
        for name in names:
            source, target = new[name], file.dataset[name]
            dims = target.dims
            if sorted(map(str, source.dims)) != sorted(map(str, dims)):
                raise ValueError(f"{name!r:.80} has dims {source.dims}, the file {dims}")
            if region and not region.keys() & {*dims}:
                raise ValueError(
                    f"{name!r:.80} has none of the dims {[*region]} of the region: leave it out "
                    "with drop_vars"
                )
            places[name] = {dim: _place(source, target, dim, region.get(dim)) for dim in dims}
            for each, coord in target.isel(places[name]).coords.items():
                if each in source.coords and not _is_same(coord, source.coords[each]):
                    raise ValueError(f"coordinate {each!r} differs from that of the file")
            _check_attrs(name, target.attrs, source.attrs)
            _check_type(name, target.variable, source.variable, casts=True)
        for name, place in places.items():
            array, like = file.arrays[name], file.dataset.variables[name]
            added = new.variables[name].transpose(*place)
            _assign(
                array,
                tuple(place.values()),
                _items(name, added.data, like, array.dtype, array.shape),
            )


def _place(source: xr.DataArray, target: xr.DataArray, dim: str, chosen: Any) -> slice:
    """Return where `source` is along an axis of `target`."""
    length, found = target.sizes[dim], source.sizes[dim]
    if chosen == "auto" and dim in target.coords:
        if dim not in source.coords:
            raise ValueError(f"the array has no coordinate {dim!r}: give the region as a slice")
        index = target.get_index(dim)
        at = index.get_indexer(source.get_index(dim)) if index.is_unique else np.array([-1])
        start = int(at[0]) if found else 0
        if not np.array_equal(at, np.arange(start, start + found)) or start < 0:
            raise ValueError(f"coordinate {dim!r} is not one part of that of the file")
        return slice(start, start + found)
    if chosen in (None, "auto"):
        chosen = slice(None)
    if not isinstance(chosen, slice):
        raise TypeError(f"the region of {dim!r} must be a slice or 'auto', not {chosen!r:.80}")
    wanted = len(range(*chosen.indices(length)))
    if wanted != found:
        raise ValueError(f"the array has length {found} along {dim!r}, the region {wanted}")
    return chosen


def _is_same(one: xr.DataArray, other: xr.DataArray) -> bool:
    """Return whether two coordinates have the same values along the same axes."""
    if {*one.dims} != {*other.dims}:
        return False
    return bool(one.variable.equals(other.variable.transpose(*one.dims)))


def _axis(old: xr.Dataset, new: xr.Dataset, dim: str | None) -> str:
    """Return the axis that grows."""
    if dim is not None:
        if dim not in old.dims or dim not in new.dims:
            raise ValueError(
                f"dim is {dim!r:.80}; the dims are {[*new.dims]}, in the file {[*old.dims]}"
            )
        return dim
    shared = [each for each in old.dims if each in new.dims]
    unlimited = [each for each in shared if each in old.encoding.get("unlimited_dims", ())]
    differing = [
        each
        for each in shared
        if old.sizes[each] != new.sizes[each]
        or (each in old.coords and each in new.coords and not _is_same(old[each], new[each]))
    ]
    for found in (unlimited, differing, shared):
        if len(found) == 1:
            return str(found[0])
    raise ValueError(
        f"give dim, the axis to append along: of {shared}, {differing} differ from the file"
    )


def _check_variables(old: xr.Dataset, new: xr.Dataset, dim: str) -> None:
    """Check that variables fit those of the file."""
    growing = [name for name, each in old.variables.items() if dim in each.dims]
    if missing := [name for name in growing if name not in new.variables]:
        raise ValueError(f"the dataset lacks {missing}, which have the axis {dim!r} in the file")
    if extra := [name for name in new.variables if name not in old.variables]:
        raise ValueError(f"the file has no variables {extra}: leave them out with drop_vars")
    for name, variable in new.variables.items():
        known = old.variables[name]
        if {*variable.dims} != {*known.dims}:
            raise ValueError(f"{name!r:.80} has dims {variable.dims}, in the file {known.dims}")
        _check_attrs(name, known.attrs, variable.attrs)
        if dim not in known.dims:
            if not known.equals(variable.transpose(*known.dims)):
                raise ValueError(f"{name!r:.80} differs from that of the file")
            continue
        _check_type(name, known, variable)
        for each, length in variable.sizes.items():
            if each != dim and length != known.sizes[each]:
                raise ValueError(
                    f"{name!r:.80} has length {length} along {each!r:.80}, in the file "
                    f"{known.sizes[each]}"
                )


def _check_type(
    name: Any, known: xr.Variable, variable: xr.Variable, *, casts: bool = False
) -> None:
    """Check that items can be stored as those of the file; the values are compared later.

    With `casts`, numbers may be of another type that numpy casts to that of the file.
    """
    kinds = known.dtype.kind, variable.dtype.kind
    if casts and {*kinds} <= {*"biufc"} and np.can_cast(variable.dtype, known.dtype, "same_kind"):
        return
    if "dtype" in known.encoding and {*kinds} <= ({*"biuf"} if _is_packed(known) else {*"biu"}):
        return
    if kinds[0] in "biufcV":
        is_same = known.dtype.newbyteorder("=") == variable.dtype.newbyteorder("=")
    else:
        is_same = kinds[0] == kinds[1] or {*kinds} <= {*"OTU"}  # text, or times of another unit
    if not is_same:
        raise TypeError(f"{name!r:.80} is {variable.dtype}, in the file {known.dtype}: use astype")


def _is_packed(known: xr.Variable) -> bool:
    """Return whether items of a file are numbers of another type when they are decoded."""
    return bool(known.encoding.keys() & {*OF_SCALING, "_FillValue", "missing_value", "_Unsigned"})


def _check_attrs(name: Any, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Check that attrs do not give items another meaning than those of the file have."""
    for key in {**old, **new}:
        ours, theirs = (np.asarray(each.get(key)).tolist() for each in (old, new))
        if key in MEANING and key in new:
            is_checked = True
        else:
            is_checked = key != "coordinates" and is_decoded_by({key: old.get(key, new.get(key))})
        if is_checked and repr(ours) != repr(theirs):
            raise ValueError(
                f"attrs[{key!r:.80}] of {name!r:.80} is {theirs!r:.80}, in the file {ours!r:.80}: "
                + ("convert the items" if key in old else "remove it, or give the file the same")
            )


def _check_order(dim: str, old: AnyArray, new: AnyArray) -> None:
    """Check that the values of a coordinate continue those of the file."""
    if old.dtype.kind == new.dtype.kind and old.dtype.kind in "mM":
        new = _cast(dim, new, old.dtype)
    is_text = old.dtype.kind in "SUT" or any(isinstance(each, str) for each in old[:1])
    signs = () if is_text else (np.greater, np.less)
    ordered = [sign for sign in signs if np.all(sign(old[1:], old[:-1]))]
    whole = np.concatenate([old[-1:], new])
    if ordered:
        steps = [sign(whole[1:], whole[:-1]) for sign in ordered]
        if any(map(np.all, steps)):
            return
        at = int(np.argmin(steps[0]))
        before, value = whole[at : at + 2]
        verb = "repeats" if value in old or value in new[:at] else "goes back to"
        raise ValueError(f"coordinate {dim!r:.80} {verb} {value!s:.80} after {before!s:.80}")
    seen = {*old.tolist()}
    for at, value in enumerate(new.tolist()):
        if value in seen:
            raise ValueError(
                f"coordinate {dim!r:.80} repeats {new[at]!s:.80}, which is in the file, after "
                f"{whole[at]!s:.80}"
            )
        seen.add(value)


def _check_growth(name: str, array: Array, dim: str, axis: int) -> None:
    """Check that the chunks of an array let an axis grow."""
    if array.container.grid is None and axis != (array.ndim - 1 if array.is_fortran else 0):
        raise ValueError(
            f"{name!r:.80} cannot grow along {dim!r:.80}, its axis {axis}, as its chunks are whole "
            "rows: save it with chunks='auto' or a shape that cuts this axis"
        )


def _grown_coords(file: _Target, name: str, axis: int, new: xr.Dataset) -> dict[str, Any]:
    """Return the entries of the coordinates of an array that grows along an axis."""
    archive, array = file.archive, file.arrays[name]
    open_array = None if archive is None else archive.__getitem__
    labels = Labels.unpack(plain(array.attrs), array.shape, open_array=open_array)
    group = name[: name.rfind("/") + 1]

    def store(key: str, coord: Coord) -> str | None:
        values, member = as_text(coord.values), group + key
        if archive is None or values.dtype.kind in "OT":
            return None
        if member not in archive:
            archive._put(member, values, {"chunks": _COORD_ROWS, "attrs": coord.array_attrs})
        # Another array has this name, or one that grows too has stored it.
        return None if member in file.arrays else member

    entries = dict(coords_in(array.attrs))
    for key, entry in entries.items():
        coord = labels.coords[key]
        if labels.dims[axis] in coord.dims and not (isinstance(entry, dict) and "array" in entry):
            like, at = file.dataset.variables[key], coord.dims.index(labels.dims[axis])
            added = new.variables[key].transpose(*like.dims).data
            dtype = coord.data.dtype if coord.data.dtype.kind != "U" else np.dtype(object)
            values = np.asarray(_items(key, added, like, dtype))
            entries[key] = grown_entry(key, coord, values, at, store)
    return entries


def _grow(name: str, array: Array, axis: int, like: xr.Variable, added: xr.Variable) -> None:
    """Append items to an array along an axis, a part at a time."""
    if not is_dask_array(added.data):
        step = max(_PART_NBYTES * added.shape[axis] // max(added.nbytes, 1), 1)
        stops = [*range(step, added.shape[axis], step), added.shape[axis]]
    else:
        stops = [int(stop) for stop in np.cumsum(added.chunks[axis])]
    start, shape = 0, list(array.shape)
    for stop in stops:
        part = added.isel({added.dims[axis]: slice(start, stop)})
        index = [slice(None)] * len(shape)
        index[axis] = slice(shape[axis], shape[axis] + stop - start)
        shape[axis] += stop - start
        array.resize(shape)
        _assign(array, tuple(index), _items(name, part.data, like, array.dtype, array.shape))
        start = stop


def _assign(array: Array, index: tuple[slice, ...], items: Any) -> None:
    if is_dask_array(items):
        items.store(array, regions=index, lock=False)
    else:  # nothing changes the items before the commit, at the end of the call
        array._assign(index, items, borrow=True)


def _items(
    name: str, data: Any, like: xr.Variable, dtype: np.dtype[Any], shape: tuple[int, ...] = ()
) -> Any:
    """Return items as the file stores those of the variable `like`, as `dtype`.

    `shape` is that of the array in the file, which may have an axis for the characters of text.
    """
    coding = {key: like.encoding[key] for key in like.encoding.keys() & _CODING}
    if "dtype" in coding and dtype.kind not in "OSU":
        return encoded_items(name, data, coding | {"dtype": dtype}, "it is that of the file")
    if is_dask_array(data) and dtype.kind not in "OSU":
        return data
    text = _filled(name, np.asarray(data), coding.get("_FillValue"))
    if len(shape) <= text.ndim:
        return _cast(name, text, dtype)
    encoded = np.char.encode(text, "utf-8") if text.dtype.kind == "U" else text
    return _cast(name, encoded, np.dtype(f"S{shape[-1]}"))[..., None].view("S1")


def _filled(name: str, values: AnyArray, fill: Any) -> AnyArray:
    """Return text with the fill value of the file in place of missing items."""
    if fill is None:
        return as_text(values)
    if np.any(values == fill):
        raise ValueError(f"{name!r:.80} has the item {fill!r:.80}, a missing one in the file")
    is_missing = xr.Variable([f"dim_{axis}" for axis in range(values.ndim)], values).isnull().values
    return as_text(np.where(is_missing, fill, values))


def _cast(name: str, values: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Return text of another size, or times in another unit, if they are the same."""
    kind = values.dtype.kind
    if kind == "O" and dtype.kind in "SU":
        raise TypeError(f"{name!r:.80} has items that are not text, and the file no fill value")
    if kind not in "mMSU":
        return values
    with suppress(OverflowError):  # of NumPy 2.5, at late dates
        cast = values.astype(dtype)
        if is_unchanged(cast, values):
            return cast
    raise ValueError(
        f"items of {name!r:.80} do not fit {dtype}, the type of the file: save it with a wider type"
    )
