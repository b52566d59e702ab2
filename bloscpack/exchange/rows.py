"""Rows of files of other libraries in the table of types that `convert` writes."""

from typing import Any

from ..plugin import (
    GIF,
    HDF5,
    JPEG,
    NETCDF3,
    NPY,
    PNG,
    TAR,
    TIFF,
    VIDEO,
    ZARR,
    ZIP,
    FileKind,
    Target,
    on_use,
)


def _target(
    name: str,
    module: str,
    suffixes: tuple[str, ...] = (),
    kinds: tuple[FileKind, ...] = (),
    **options: Any,
) -> Target:
    """Return the row of a type whose functions are named as in its module."""
    module = f"exchange.{module}"
    return Target(
        name,
        on_use(module, f"copy_to_{name}"),
        suffixes,
        kinds=kinds,
        open=on_use(module, f"open_{name}"),
        **options,
    )


_NAMED: dict[str, Any] = {"is_array": True, "has_names": True}
_CHUNKED: dict[str, Any] = {**_NAMED, "options": {"chunks": ""}}
_CRF = {"crf": "for mp4: 0 to 51 (default: 18)"}
TARGETS = (
    Target(
        "images",
        on_use("exchange.images", "copy_to_pictures"),
        is_folder=True,
        kinds=(JPEG, PNG),
        open=on_use("exchange.webdataset", "open_image"),
    ),
    _target("npy", "npy", (".npy",), (NPY,), is_array=True),
    _target("npz", "npz", (".npz",), (ZIP,), **_NAMED, is_mapping=True),
    _target("hdf5", "hdf5", (".h5", ".hdf5"), (HDF5,), **_CHUNKED),
    _target("zarr", "zarrarray", (".zarr", ".zarr.zip"), (ZARR,), **_CHUNKED),
    _target("zarr2", "zarrarray", **_CHUNKED),
    _target("tiff", "tiff", (".tif", ".tiff"), (TIFF,), is_array=True),
    _target("mp4", "videofile", (".mp4",), (VIDEO, GIF), options=_CRF),
    Target("gif", on_use("exchange.videofile", "copy_to_gif"), (".gif",)),
    _target("webdataset", "webdataset", (".tar",), (TAR,)),
    Target(
        "netcdf",
        on_use("exchange.netcdf", "copy_to_netcdf"),
        (".nc", ".nc4"),
        kinds=(NETCDF3,),
        open=on_use("exchange.netcdf3", "open_netcdf3"),
        **_CHUNKED,
    ),
)
