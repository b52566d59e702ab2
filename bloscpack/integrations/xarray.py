"""Arrays and archives as xarray datasets that are read when indexed, and changed by region.

xarray finds the engine by the entry point of the package, and selects it for files named ``.blp``
and by the first bytes of a file. Names of axes and coordinates come from the attrs (`axislabels`).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import urlsplit

from ..archive.save import save
from ..container.front import Verify
from ..filetypes.open import open as open_file
from ..format.filekind import BLOSCPACK_KINDS, kind_of
from ..storage.file import kind_at
from ..storage.protocol import closed_on_error
from ..storage.url import is_url
from .xarraychanges import append, write
from .xarraydataset import dataset_of, xr

__all__ = ["BloscpackBackend", "DataArrayAccessor", "DatasetAccessor"]


class _Accessor:
    """Methods of both accessors.

    Parameters
    ----------
    value : xarray.DataArray or xarray.Dataset
        The array or dataset; xarray passes it.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Save the array, or all variables of the dataset, with coordinates and attrs.

        Parameters
        ----------
        path : str or PathLike
            The file.
        **options
            Those of `bloscpack.save`, which raises the same errors.
        """
        save(path, self._value, **options)

    def append(self, path: str | os.PathLike[str], dim: str | None = None) -> None:
        """Append the array or the variables to those of a file, along an axis, in one commit.

        `bloscpack.append` describes the parameters and raises the same errors.

        Parameters
        ----------
        path : str or PathLike
            The file.
        dim : str, optional
            The axis.

        Examples
        --------
        >>> import bloscpack.integrations.xarray
        >>> import xarray as xr
        >>> days = xr.DataArray([1.5, 2.5, 3.5], {"day": [10, 11, 12]}, name="heat")
        >>> days[:2].blp.save("days.blp")
        >>> days[2:].blp.append("days.blp", dim="day")
        >>> xr.open_dataarray("days.blp", engine="bloscpack").day.values
        array([10, 11, 12])
        """
        append(path, self._value, dim)

    def write(
        self,
        path: str | os.PathLike[str],
        region: Literal["auto"] | Mapping[str, slice | Literal["auto"]] = "auto",
    ) -> None:
        """Write items in place of those in a region of a file, in one commit.

        Parameters
        ----------
        path : str or PathLike
            A file of an array with these dims, in any order; for a dataset an archive that has its
            variables, and others that stay.
        region : "auto" or mapping of str to slice or "auto", default "auto"
            Part of the file, by dim: a slice of positions, or "auto", which finds the coordinate
            of the array in that of the file. The array must be as long as the file along all dims
            that the mapping does not have. Each variable of a dataset must have one of its dims.

        Raises
        ------
        ValueError
            The array has other dims, lengths or coordinates than the region, or the coordinate of
            a dim is not a part of that of the file. A variable of a dataset is not in the file, or
            has none of the dims of the region.
        TypeError
            The items cannot be cast to the type of the file.
        LockedError
            Another writer has the file open.

        Notes
        -----
        Coordinates that both have must be equal; they are not written. The labels and attrs of the
        file stay. Items that xarray decodes, such as by ``scale_factor``, are encoded as those of
        the file. An array of Dask is computed block by block; its scheduler must use threads.

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
        write(path, self._value, region)


@xr.register_dataarray_accessor("blp")
class DataArrayAccessor(_Accessor):
    """Methods of xarray's DataArray as ``da.blp``, once this module is imported.

    Examples
    --------
    >>> import bloscpack.integrations.xarray
    >>> import xarray as xr
    >>> xr.DataArray([1.5, 2.5], dims="time", name="heat").blp.save("heat.blp")
    """


@xr.register_dataset_accessor("blp")
class DatasetAccessor(_Accessor):
    """Methods of xarray's Dataset as ``ds.blp``, once this module is imported.

    Examples
    --------
    >>> import bloscpack.integrations.xarray
    >>> import xarray as xr
    >>> heat = xr.DataArray([1.5, 2.5], dims="time")
    >>> xr.Dataset({"heat": heat, "cold": -heat}).blp.save("fields.blp")
    """


class BloscpackBackend(xr.backends.BackendEntrypoint):  # type: ignore[misc]
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
            of a DataArray or Dataset that was saved without such an encoding.
        decode_coords : bool or "all", optional
            Whether variables that the attrs name as coordinates are coordinates; by default those
            of ``coordinates`` are, except in a DataArray or Dataset that was saved.
        decode_timedelta : bool or coder, optional
            Whether numbers with a unit of time are timedeltas; by default only those that xarray
            has written from timedeltas are.
        concat_characters : bool, optional
            Whether the last axis of arrays of single characters, as netCDF has them, becomes text;
            by default if the axes have names, except those of a DataArray or Dataset that was
            saved.
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
        with closed_on_error(opened, opened.name):
            dataset = dataset_of(
                opened,
                drop_variables=drop_variables,
                name=name,
                dims=dims,
                mask_and_scale=mask_and_scale,
                decode_times=decode_times,
                decode_coords=decode_coords,
                decode_timedelta=decode_timedelta,
                concat_characters=concat_characters,
                group=group,
            )
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
