"""Arrays in files as xarray datasets that are read when they are indexed.

xarray finds the engine by the entry point of the package, and selects it for files named ``.blp``
and by the first bytes of a file. Names of axes and coordinates come from the attrs (`axislabels`).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from ..array.array import Array
from ..array.attrs import plain
from ..array.axislabels import Labels, is_decoded_by, typed
from ..array.save import save
from ..container.front import Verify
from ..format.filekind import BLOSCPACK_KINDS, kind_of
from ..storage.file import kind_at
from ..storage.protocol import closed_on_error
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

__all__ = ["BloscpackBackend", "DataArrayAccessor"]


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


class BloscpackBackend(BackendEntrypoint):  # type: ignore[misc]
    """The engine ``bloscpack`` of xarray."""

    description = "Arrays in Bloscpack files (.blp)"
    open_dataset_parameters = (
        "filename_or_obj",
        "drop_variables",
        "name",
        "dims",
        "mask_and_scale",
        "decode_times",
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
        verify: Verify = True,
        storage_options: Mapping[str, Any] | None = None,
    ) -> xr.Dataset:
        """Open an array as a dataset of one variable; called by ``xarray.open_dataset``.

        Parameters
        ----------
        filename_or_obj : str, PathLike, bytes-like or binary file
            Anything that `bloscpack.open` opens, also a URL.
        drop_variables : str or iterable of str, optional
            Variables and coordinates to leave out.
        name : str, optional
            Name of the variable; by default ``attrs["name"]``, else "data".
        dims : sequence of str, optional
            Names of its axes; by default ``attrs["dims"]``, else ``dim_0`` and so on.
        mask_and_scale, decode_times : bool, optional
            Whether to decode items by the attrs that they have from netCDF or Zarr: ``_FillValue``,
            ``scale_factor``, ``add_offset`` and units of times. By default they are, except those
            of a DataArray that was saved.
        verify, storage_options
            As for `bloscpack.open`.

        Returns
        -------
        Dataset
            Dataset whose variable is read when it is indexed; coordinates are in memory.

        Raises
        ------
        UnsupportedError
            The attrs do not fit the array.
        FormatError
            The file is damaged, or of another type.
        """
        array = Array(filename_or_obj, verify=verify, storage_options=storage_options)
        with closed_on_error(array, array.name):
            labels = Labels.unpack(plain(array.attrs), array.shape, name=name, dims=dims)
        is_raw = not labels.is_decoded
        mask_and_scale = is_raw if mask_and_scale is None else mask_and_scale
        decode_times = is_raw if decode_times is None else decode_times
        dropped = {drop_variables} if isinstance(drop_variables, str) else {*(drop_variables or ())}
        data = indexing.LazilyIndexedArray(LazyArray(array))
        variable = xr.Variable(
            labels.dims, data, typed(labels.attrs, array.dtype), _encoding(array, labels.dims)
        )
        coords = {
            each: xr.Variable(coord.dims, coord.values, typed(coord.attrs, coord.values.dtype))
            for each, coord in labels.coords.items()
            if each not in dropped
        }
        data_vars = {} if labels.name in dropped else {labels.name: variable}
        dataset = xr.Dataset(data_vars, coords)
        if any(is_decoded_by(each.attrs) for each in dataset.variables.values()):
            dataset = xr.decode_cf(
                dataset,
                concat_characters=False,
                mask_and_scale=mask_and_scale,
                decode_times=decode_times,
                decode_coords=False,
                decode_timedelta=_TIMEDELTAS if decode_times else False,
            )
        dataset.set_close(array.close)
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
