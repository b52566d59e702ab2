"""Arrays and archives as datasets of xarray, whose variables are read when they are indexed.

Names of axes and coordinates come from the attrs (`axislabels`).
"""

from asyncio import to_thread
from collections.abc import Iterable, Sequence
from typing import Any

from ..archive.reader import Archive
from ..array.array import Array
from ..array.attrs import default_dims, plain
from ..array.axislabels import (
    COORDINATE,
    DECODED,
    NONE_NAME,
    UNLIMITED,
    Coord,
    Labels,
    is_decoded_by,
    is_same_coord,
    typed,
)
from ..exceptions import NotFoundError, UnsupportedError
from ..parallel.imports import optional_library
from ..types import AnyArray

with optional_library("'xarray>=2025.7'", "xarray"):
    import xarray as xr
    from xarray.backends import BackendArray
    from xarray.coders import CFTimedeltaCoder
    from xarray.core import indexing

__all__ = ["dataset_of", "variable_name", "xr"]

# Numbers are timedeltas by their attribute "dtype" alone: those whose unit is "days" stay numbers.
_TIMEDELTAS = CFTimedeltaCoder(decode_via_units=False)


def dataset_of(
    opened: Any,
    *,
    drop_variables: str | Iterable[str] | None = None,
    name: str | None = None,
    dims: Sequence[str] | None = None,
    group: str | None = None,
    **decoding: Any,
) -> xr.Dataset:
    """Return an open array or archive as a dataset; `BloscpackBackend.open_dataset` has options."""
    dropped = {drop_variables} if isinstance(drop_variables, str) else {*(drop_variables or ())}
    variables = _Variables(dropped)
    attrs: dict[str, Any] = {}
    if isinstance(opened, Archive):
        if name is not None or dims is not None:
            raise ValueError("name and dims are for a file of one array, not for an archive")
        attrs = variables.add_all(opened, group)
    elif group is not None:
        raise ValueError("group is for an archive, not for a file of one array")
    else:
        variables.add(opened, _labels(opened, name=name, dims=dims))
    unlimited = attrs.pop(UNLIMITED, None)
    dataset = variables.dataset(attrs, **decoding)
    if isinstance(unlimited, list):
        dataset.encoding["unlimited_dims"] = {*map(str, unlimited)} & {*dataset.dims}
    return dataset


def _labels(array: Array, **labels: Any) -> Labels:
    options = {"open_array": array._open_other, **labels}
    return Labels.unpack(plain(array.attrs), array.shape, **options)


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
        self._known: dict[str, tuple[str, Coord]] = {}  # coordinates, and the first host

    def add(self, array: Array, labels: Labels, name: str | None = None) -> None:
        """Add an array, and its coordinates."""
        name, is_raw = labels.name if name is None else name, not labels.is_decoded
        for key, coord in labels.coords.items():
            self._add_coord(key, coord, name)
        if array.dtype == "S1" and "dims" not in array.attrs:  # no characters of a text
            is_raw = False
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
        arrays = archive._open_all(names)
        sizes: dict[str, int] = {}
        coords = {}
        for place, array in arrays.items():
            found = _labels(
                array, open_array=lambda name: (arrays if name in arrays else archive)[name]
            )
            if (
                "dims" not in array.attrs
            ):  # axes without names, of the same length if they share one
                names = default_dims(array.shape, sizes.get)
                sizes.update(zip(names, array.shape, strict=True))
                found = _labels(array, dims=names)
            name = place.removeprefix(prefix)
            if array.attrs.get(COORDINATE) is True:
                coords[name] = array, found
            else:
                self.add(array, found, name)
        for name, (array, found) in coords.items():
            if name not in self._known:
                self._add_coord(name, Coord(found.dims, array, found.attrs), name)
        if path is None:
            return attrs  # type: ignore[no-any-return]
        found = attrs.get(f"/{path}", {}) if path else attrs
        return {key: value for key, value in found.items() if key[:1] != "/"}

    def _add_coord(self, key: str, coord: Coord, host: str) -> None:
        if key in self._dropped:
            return
        other, known = self._known.setdefault(key, (host, coord))
        if known is coord:
            self._coords[key] = _variable(coord), coord.attrs.get(DECODED) is not True
        elif not is_same_coord(coord, known):
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
        asked = mask_and_scale, decode_times, decode_coords, decode_timedelta, concat_characters
        for is_raw in (True, False):
            some = {name: each for name, (each, raw) in found.items() if raw is is_raw}
            is_coded = any(
                each.dtype == "S1" or is_decoded_by(each.attrs) for each in some.values()
            )
            if (is_raw or any(asked)) and (is_coded or decode_coords == "all"):
                times = is_raw if decode_times is None else decode_times
                timedeltas = decode_timedelta
                if timedeltas is None:
                    timedeltas = _TIMEDELTAS if times else False
                some, _, names = xr.conventions.decode_cf_variables(
                    some,
                    {},
                    concat_characters=is_raw if concat_characters is None else concat_characters,
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
            {variable_name(name): variables[name] for name in found if name not in coords},
            {name: variables[name] for name in found if name in coords},
            attrs,
        )


def variable_name(name: str) -> str | None:
    """Return the name of the variable of an array of an archive."""
    return None if name == NONE_NAME else name


def _variable(coord: Coord) -> xr.Variable:
    """Return an array as a variable, which is read when it is indexed if it is in a file."""
    array, attrs = coord.data, typed(coord.attrs, coord.data.dtype)
    if array.dtype.kind == "S" and isinstance(attrs.get("_FillValue"), str):
        attrs["_FillValue"] = attrs["_FillValue"].encode()  # JSON has no bytes
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

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> AnyArray:
        """Read a selection in another thread."""
        return await to_thread(self.__getitem__, key)

    def _read(self, key: tuple[Any, ...]) -> AnyArray:
        return self._array.oindex[key]
