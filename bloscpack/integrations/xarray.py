"""Arrays and archives as xarray datasets that are read when indexed, and changed by region.

xarray finds the engine by the entry point of the package, and selects it for files named ``.blp``
and by the first bytes of a file. Names of axes and coordinates come from the attrs (`axislabels`).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np

from ..archive.reader import Archive
from ..archive.save import save
from ..array.array import Array
from ..array.attrs import plain
from ..array.axislabels import (
    COORDINATE,
    DECODED,
    UNLIMITED,
    Coord,
    Labels,
    is_decoded_by,
    is_same_coord,
    typed,
)
from ..container.front import Verify
from ..exceptions import NotFoundError, UnsupportedError
from ..filetypes.open import open as open_file
from ..format.filekind import BLOSCPACK_KINDS, kind_of
from ..storage.file import kind_at
from ..storage.protocol import closed_on_error, errors_at
from ..storage.url import is_url
from ..types import AnyArray

try:
    import xarray as xr
    from xarray.backends import BackendArray, BackendEntrypoint
    from xarray.core import indexing
except ImportError as err:
    raise ImportError(
        f"{err}: pip install 'xarray>=2024.7' (or 'bloscpack[xarray]')", name=err.name
    ) from err

# Numbers are timedeltas by their attribute "dtype" alone: those whose unit is "days" stay numbers.
_TIMEDELTAS: Any = False
with suppress(ImportError, TypeError):  # before 2025.4
    from xarray.coders import CFTimedeltaCoder

    _TIMEDELTAS = CFTimedeltaCoder(decode_via_units=False)

__all__ = ["BloscpackBackend", "DataArrayAccessor", "DatasetAccessor"]


@xr.register_dataarray_accessor("blp")
class DataArrayAccessor:
    """Methods of xarray's DataArray as ``da.blp``, once this module is imported.

    Parameters
    ----------
    array : xarray.DataArray
        The array; xarray passes it.

    Examples
    --------
    >>> import bloscpack.integrations.xarray
    >>> import xarray as xr
    >>> xr.DataArray([1.5, 2.5], dims="time", name="heat").blp.save("heat.blp")
    """

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Save the array with its name, dims and coordinates.

        Parameters
        ----------
        path : str or PathLike
            The file.
        **options
            Those of `bloscpack.save`, which raises the same errors.
        """
        save(path, self._array, **options)

    def write(
        self,
        path: str | os.PathLike[str],
        region: Literal["auto"] | Mapping[str, slice | Literal["auto"]] = "auto",
    ) -> None:
        """Write the items of the array in place of those in a region of a file, in one commit.

        Parameters
        ----------
        path : str or PathLike
            A file of an array with these dims, in any order.
        region : "auto" or mapping of str to slice or "auto", default "auto"
            Part of the file, by dim: a slice of positions, or "auto", which finds the coordinate
            of the array in that of the file. The array must be as long as the file along all dims
            that the mapping does not have.

        Raises
        ------
        ValueError
            The array has other dims, lengths or coordinates than the region, or the coordinate of
            a dim is not a part of that of the file.
        TypeError, UnsupportedError
            The items cannot be cast to the type of the file, or the file has items that xarray
            decodes, such as by ``scale_factor``.
        LockedError
            Another writer has the file open.

        Notes
        -----
        Coordinates that both have must be equal. The labels and attrs of the file stay. An array of
        Dask is computed block by block; its scheduler must use threads.

        Examples
        --------
        >>> import bloscpack.integrations.xarray
        >>> import xarray as xr
        >>> days = xr.DataArray([1.5, 2.5, 3.5], {"day": [10, 11, 12]}, name="heat")
        >>> days.blp.save("days.blp")
        >>> (days[1:] * 10).blp.write("days.blp")
        >>> xr.open_dataarray("days.blp", engine="bloscpack").values
        array([ 1.5, 25. , 35. ])
        """
        # Coordinates may be other arrays of an archive, which a handle that only reads can open.
        with Array(path, "r+") as array, Array(path) as before, errors_at(array.name):
            labels = _labels(before)
            if is_decoded_by(labels.attrs) and not labels.is_decoded:
                raise UnsupportedError(
                    "the file has attrs by which xarray decodes its items: write stored items with "
                    "bloscpack.open(path, 'r+')"
                )
            variables = _Variables(set())
            variables.add(before, labels)
            target = variables.dataset({})[labels.name]
            dims = target.dims
            if sorted(map(str, self._array.dims)) != sorted(dims) or len({*dims}) < len(dims):
                raise ValueError(f"the array has dims {self._array.dims}, the file {dims}")
            source = self._array.transpose(*dims)
            chosen = dict.fromkeys(dims, "auto") if region == "auto" else region
            if not isinstance(chosen, Mapping) or not chosen.keys() <= {*dims}:
                raise ValueError(
                    f"region must be 'auto' or a mapping of dims {dims}: {region!r:.80}"
                )
            places = {dim: _place(source, target, dim, chosen.get(dim)) for dim in dims}
            for each, coord in target.isel(places).coords.items():
                if each in source.coords and not _is_same(coord, source.coords[each]):
                    raise ValueError(f"coordinate {each!r} differs from that of the file")
            data, index = source.variable.data, tuple(places.values())
            if hasattr(data, "__dask_graph__"):
                data.store(array, regions=index, lock=False)
            else:
                array[index] = data


@xr.register_dataset_accessor("blp")
class DatasetAccessor:
    """Methods of xarray's Dataset as ``ds.blp``, once this module is imported.

    Parameters
    ----------
    dataset : xarray.Dataset
        The dataset; xarray passes it.

    Examples
    --------
    >>> import bloscpack.integrations.xarray
    >>> import xarray as xr
    >>> heat = xr.DataArray([1.5, 2.5], dims="time")
    >>> xr.Dataset({"heat": heat, "cold": -heat}).blp.save("fields.blp")
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Save all variables with their coordinates and attrs to an archive.

        Parameters
        ----------
        path : str or PathLike
            The file.
        **options
            Those of `bloscpack.save`, which raises the same errors.
        """
        save(path, self._dataset, **options)


class BloscpackBackend(BackendEntrypoint):  # type: ignore[misc]
    """The engine ``bloscpack`` of xarray."""

    description = "Arrays and archives of arrays in Bloscpack files (.blp)"
    open_dataset_parameters = (
        "filename_or_obj",
        "drop_variables",
        "name",
        "dims",
        "mask_and_scale",
        "decode_times",
        "decode_coords",
        "decode_timedelta",
        "concat_characters",
        "group",
        "verify",
        "storage_options",
    )

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        name: str | None = None,
        dims: Sequence[str] | None = None,
        mask_and_scale: bool | None = None,
        decode_times: bool | None = None,
        decode_coords: bool | str | None = None,
        decode_timedelta: Any = None,
        concat_characters: bool | None = None,
        group: str | None = None,
        verify: Verify = True,
        storage_options: Mapping[str, Any] | None = None,
    ) -> xr.Dataset:
        """Open all arrays of an archive, or an array, as a dataset; for ``xarray.open_dataset``.

        Parameters
        ----------
        filename_or_obj : str, PathLike, bytes-like or binary file
            Anything that `bloscpack.open` opens, also a URL.
        drop_variables : str or iterable of str, optional
            Variables and coordinates to leave out.
        name : str, optional
            Name of the variable of a file of one array; by default ``attrs["name"]``, else "data".
        dims : sequence of str, optional
            Names of its axes; by default ``attrs["dims"]``, else ``dim_0`` and so on.
        mask_and_scale, decode_times : bool, optional
            Whether to decode items by the attrs that they have from netCDF or Zarr: ``_FillValue``,
            ``scale_factor``, ``add_offset`` and units of times. By default they are, except those
            of a DataArray or Dataset that was saved.
        decode_coords : bool or "all", optional
            Whether variables that the attrs name as coordinates are coordinates; by default those
            of ``coordinates`` are, except in a DataArray or Dataset that was saved.
        decode_timedelta : bool or coder, optional
            Whether numbers with a unit of time are timedeltas; by default only those that xarray
            has written from timedeltas are.
        concat_characters : bool, default False
            Whether the last axis of arrays of single characters, as netCDF has them, becomes text.
        group : str, optional
            Only arrays of an archive with names ``group/...``, by the rest of their names; "/" for
            those without a group.
        verify, storage_options
            As for `bloscpack.open`.

        Returns
        -------
        Dataset
            Dataset whose variables are read when they are indexed. Coordinates of a file of one
            array are in memory.

        Raises
        ------
        UnsupportedError
            The attrs do not fit an array, or arrays have different coordinates of one name.
        FormatError
            The file is damaged, or of another type.
        """
        opened: Any = open_file(filename_or_obj, verify=verify, storage_options=storage_options)
        dropped = {drop_variables} if isinstance(drop_variables, str) else {*(drop_variables or ())}
        variables = _Variables(dropped)
        with closed_on_error(opened, opened.name):
            attrs = {}
            if isinstance(opened, Archive):
                if name is not None or dims is not None:
                    raise ValueError(
                        "name and dims are for a file of one array, not for an archive"
                    )
                attrs = variables.add_all(opened, group)
            elif group is not None:
                raise ValueError("group is for an archive, not for a file of one array")
            else:
                variables.add(opened, _labels(opened, name=name, dims=dims))
            unlimited = attrs.pop(UNLIMITED, None)
            dataset = variables.dataset(
                attrs,
                mask_and_scale=mask_and_scale,
                decode_times=decode_times,
                decode_coords=decode_coords,
                decode_timedelta=decode_timedelta,
                concat_characters=concat_characters,
            )
            if isinstance(unlimited, list):
                dataset.encoding["unlimited_dims"] = {*map(str, unlimited)} & {*dataset.dims}
        dataset.set_close(opened.close)
        return dataset

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether the file is a Bloscpack file by its name or its first bytes."""
        if isinstance(filename_or_obj, bytes | bytearray | memoryview):
            return kind_of(filename_or_obj) in BLOSCPACK_KINDS
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        path = os.fsdecode(filename_or_obj)
        if is_url(path):
            return urlsplit(path).path.endswith(".blp")
        if path.endswith(".blp"):
            return True
        with suppress(OSError):
            return kind_at(path) in BLOSCPACK_KINDS
        return False


def _labels(array: Array, **labels: Any) -> Labels:
    options = {"open_array": array._open_other, **labels}
    return Labels.unpack(plain(array.attrs), array.shape, **options)


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


class _Variables:
    """Variables of a dataset, and coordinates that they share.

    Parameters
    ----------
    dropped : set of str
        Names of variables and coordinates to leave out.
    """

    def __init__(self, dropped: set[str]) -> None:
        self._dropped = dropped
        self._data: dict[str, tuple[xr.Variable, bool]] = {}  # and whether it is to be decoded
        self._coords: dict[str, tuple[xr.Variable, bool]] = {}
        self._known: dict[str, tuple[str, Coord, bool]] = {}  # coordinates, and the first host

    def add(self, array: Array, labels: Labels, name: str | None = None) -> None:
        """Add an array, and its coordinates."""
        name, is_raw = labels.name if name is None else name, not labels.is_decoded
        for key, coord in labels.coords.items():
            self._add_coord(key, coord, name, is_raw)
        if name not in self._dropped:
            self._data[name] = _variable(Coord(labels.dims, array, labels.attrs)), is_raw

    def add_all(self, archive: Archive, group: str | None) -> dict[str, Any]:
        """Add the arrays of an archive, or of a group of it, and return its attrs."""
        attrs = plain(archive.attrs)
        path = None if group is None else group.strip("/")
        prefix = f"{path}/" if path else ""
        names = [name for name in archive if name.startswith(prefix)]
        if path == "":
            names = [name for name in names if "/" not in name]
        elif path and not names and f"/{path}" not in attrs:
            raise NotFoundError(f"no group {group!r:.80} in the archive")
        arrays = {name: archive[name] for name in names}
        sizes: dict[str, int] = {}
        coords = {}
        for place, array in arrays.items():
            found = _labels(
                array, open_array=lambda name: (arrays if name in arrays else archive)[name]
            )
            if (
                "dims" not in array.attrs
            ):  # axes without names, of the same length if they share one
                axes = zip(found.dims, array.shape, strict=True)
                names = [n if sizes.setdefault(n, k) == k else f"{n}_{k}" for n, k in axes]
                found = _labels(array, dims=names)
            name = place.removeprefix(prefix)
            if array.attrs.get(COORDINATE) is True:
                coords[name] = array, found
            else:
                self.add(array, found, name)
        for name, (array, found) in coords.items():
            if name not in self._known:
                self._add_coord(
                    name, Coord(found.dims, array, found.attrs), name, not found.is_decoded
                )
        if path is None:
            return attrs  # type: ignore[no-any-return]
        found = attrs.get(f"/{path}", {}) if path else attrs
        return {key: value for key, value in found.items() if key[:1] != "/"}

    def _add_coord(self, key: str, coord: Coord, host: str, is_raw: bool) -> None:
        if key in self._dropped:
            return
        is_raw = is_raw and is_decoded_by(coord.attrs)
        other, known, was_raw = self._known.setdefault(key, (host, coord, is_raw))
        if known is coord:
            self._coords[key] = _variable(coord), is_raw
        elif is_raw != was_raw or not is_same_coord(coord, known):
            raise UnsupportedError(
                f"arrays {other!r:.80} and {host!r:.80} have different coordinates {key!r:.80}: "
                "leave some out by drop_variables, or open one array as FILE::/NAME"
            )

    def dataset(
        self,
        attrs: dict[str, Any],
        *,
        mask_and_scale: bool | None = None,
        decode_times: bool | None = None,
        decode_coords: bool | str | None = None,
        decode_timedelta: Any = None,
        concat_characters: bool | None = None,
    ) -> xr.Dataset:
        """Return the dataset, whose items and times are decoded if they are raw."""
        for key in self._data.keys() & self._coords:
            host = self._known[key][0]
            if not self._data[key][0].identical(self._coords[key][0]):
                raise UnsupportedError(
                    f"array {key!r:.80} differs from the coordinates of {host!r:.80} of this name"
                )
        found = {**self._data, **self._coords}
        lengths: dict[Any, tuple[int, str]] = {}
        for name, (variable, _) in found.items():
            for dim, length in variable.sizes.items():
                known, other = lengths.setdefault(dim, (length, name))
                if known != length:
                    raise UnsupportedError(
                        f"{dim!r:.80} has length {known} in {other!r:.80}, and {length} in "
                        f"{name!r:.80}: leave one out by drop_variables"
                    )
        variables: dict[str, xr.Variable] = {}
        coords = {*self._coords}
        for is_raw in (True, False):
            some = {name: each for name, (each, raw) in found.items() if raw is is_raw}
            if concat_characters or any(is_decoded_by(each.attrs) for each in some.values()):
                times = is_raw if decode_times is None else decode_times
                timedeltas = decode_timedelta
                if timedeltas is None:
                    timedeltas = _TIMEDELTAS if times else False
                some, _, names = xr.conventions.decode_cf_variables(
                    some,
                    {},
                    concat_characters=bool(concat_characters),
                    mask_and_scale=is_raw if mask_and_scale is None else mask_and_scale,
                    decode_times=times,
                    decode_coords=is_raw if decode_coords is None else decode_coords,
                    decode_timedelta=timedeltas,
                )
                coords |= names
            variables |= some
        # xarray lists coordinates of no variable in this attribute of a netCDF file.
        listed = str(attrs.get("coordinates", "")).split()
        if not attrs.pop(DECODED, False) and listed and variables.keys() >= {*listed}:
            del attrs["coordinates"]
            coords |= {*listed}
        return xr.Dataset(
            {name: variables[name] for name in found if name not in coords},
            {name: variables[name] for name in found if name in coords},
            attrs,
        )


def _variable(coord: Coord) -> xr.Variable:
    """Return an array as a variable, which is read when it is indexed if it is in a file."""
    array, attrs = coord.data, typed(coord.attrs, coord.data.dtype)
    if not isinstance(array, Array):
        return xr.Variable(coord.dims, coord.values, attrs)
    data = indexing.LazilyIndexedArray(LazyArray(array))
    return xr.Variable(coord.dims, data, attrs, _encoding(array, coord.dims))


def _encoding(array: Array, dims: tuple[str, ...]) -> dict[str, Any]:
    """Return the encoding of the variable for xarray: preferred chunks for Dask."""
    encoding: dict[str, Any] = {"source": array.name}
    if array.chunks and array.size:
        encoding["preferred_chunks"] = dict(zip(dims, array.chunks, strict=True))
    return encoding


class LazyArray(BackendArray):  # type: ignore[misc]
    """Array in a file with the indexing interface of xarray.

    Parameters
    ----------
    array : Array
        Array in a file, which is pickled as its path.
    """

    def __init__(self, array: Array) -> None:
        # xarray's own tests take a public `array` attribute for an array in memory.
        self._array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> AnyArray:
        """Read a selection; only the chunks of the selection are read."""
        found: AnyArray = indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER, self._read
        )
        return found

    def _read(self, key: tuple[Any, ...]) -> AnyArray:
        return self._array.oindex[key]
