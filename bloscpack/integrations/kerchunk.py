"""References to the chunks of a file, with which Zarr readers find them without this package.

The chunks of a file whose chunks are whole rows are Blosc chunks as numcodecs reads them. A
reference tells where one lies, without the checksum behind it. A short last chunk, which Zarr does
not read, is put into the references themselves, filled up.
"""

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ..array.array import Array
from ..container.reader import Container
from ..container.writer import Progress
from ..exceptions import BloscpackError, FormatError, UnsupportedError
from ..format.codec import ChunkHeader, CodecParams, encode
from ..storage.remote.prefetch import prefetched
from ..storage.remote.source import Extent
from ..storage.url import is_url, shown
from .axislabels import Coord, Labels
from .zarrlayout import ARRAY_KEY, ATTRS_KEY, ZarrLayout, json_text

__all__ = ["kerchunk_references"]

# What xarray reads the names of axes from in version 2 of the Zarr format.
_DIMS_KEY = "_ARRAY_DIMENSIONS"
# What numcodecs decodes: it is built without Snappy.
_CODECS = ("zstd", "lz4", "blosclz", "zlib")


def kerchunk_references(
    path: Any,
    *,
    url: str | None = None,
    name: str | None = None,
    dims: Sequence[str] | None = None,
    verify: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return references with which Zarr and xarray read an array in a file without this package.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file, or a URL of it.
    url : str, optional
        Where readers find the file; by default its absolute path, or its URL.
    name : str, optional
        Of the array in the group that readers open; by default ``attrs["name"]``, else "data".
    dims : sequence of str, optional
        Of its axes; by default ``attrs["dims"]``, else ``dim_0`` and so on.
    verify : bool, default True
        Read every chunk and compare its checksum, which readers of references cannot. Without,
        only the offset table, the first and the last chunk are read.
    storage_options : mapping, optional
        For a URL: what fsspec's file system for it takes.
    progress : callable, optional
        Called with (chunks done, chunks in all) after each chunk that was read.

    Returns
    -------
    dict
        Of version 1 of kerchunk's format, JSON values: what fsspec's file system ``reference``
        takes. Coordinates from the attrs are in it, and the last chunk, filled up, if it is short.

    Raises
    ------
    UnsupportedError
        Zarr cannot read the chunks as they are: they are not made of whole rows, or compressed
        with Snappy, or Zarr has no such dtype. Or the attrs do not fit the array.
    FormatError
        The file is damaged, or of another kind.
    TypeError
        `path` is no path or URL, and there is no `url`.
    ValueError
        `path` is a URL with a password or a query, which may be secret, and there is no `url`.

    Notes
    -----
    References hold for this state of the file: after rows were appended, make them anew. Readers do
    not compare checksums, and zarr takes a file that is gone for one without values;
    `bloscpack.as_zarr` does better where this package is.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> bp.save("ramp.blp", np.arange(60).reshape(20, 3), chunks=10)
    >>> refs = bp.kerchunk_references("ramp.blp", url="s3://bucket/ramp.blp")
    >>> sorted(refs["refs"])
    ['.zattrs', '.zgroup', 'data/.zarray', 'data/.zattrs', 'data/0.0', 'data/1.0']
    >>> where, offset, nbytes = refs["refs"]["data/1.0"]
    >>> where
    's3://bucket/ramp.blp'
    """
    where = _place(path) if url is None else url
    with Array(path, verify=verify, storage_options=storage_options) as array:
        try:
            labels = Labels.unpack(array.attrs, array.shape, name=name, dims=dims)
            layout = ZarrLayout.of(array)
            refs = {".zgroup": json_text({"zarr_format": 2}), ATTRS_KEY: "{}"}
            refs |= _array_refs(array, labels, layout, where, verify, progress)
            for each, coord in labels.coords.items():
                refs |= _coord_refs(each, coord)
        except BloscpackError as err:
            err.path = array._open_container().name
            raise
    return {"version": 1, "refs": refs}


def _place(path: Any) -> str:
    if is_url(path):
        if shown(path) != path:
            raise ValueError(
                f"{shown(path)}: references would tell everybody the password or query of this "
                "URL: give 'url' with what readers are to use"
            )
        return str(path)
    if isinstance(path, str | os.PathLike):
        return os.path.abspath(os.fsdecode(path))
    raise TypeError(f"references need the place of the file: give 'url' for {type(path).__name__}")


def _array_refs(
    array: Array,
    labels: Labels,
    layout: ZarrLayout,
    where: str,
    verify: bool,
    progress: Progress | None,
) -> dict[str, Any]:
    """Return the references of the array itself."""
    container = array._open_container()
    attrs = dict(labels.attrs)
    others = [name for name, coord in labels.coords.items() if coord.dims != (name,)]
    if others:  # as the conventions of netCDF tell coordinates from data
        attrs.setdefault("coordinates", " ".join(others))
    if not array.size:
        return _head_refs(labels.name, layout, labels.dims, attrs)
    nbytes = prod(layout.chunks) * layout.dtype.itemsize
    _check_grid(array, layout, nbytes)
    first = container.fetch(0).header
    compressor = {
        "id": "blosc",
        "cname": _codec_of(first),
        "clevel": 5,
        "shuffle": int(first.shuffle),
        "blocksize": 0,
    }
    refs = _head_refs(labels.name, layout, labels.dims, attrs, compressor)
    extents = _table_extents
    if verify or not container.header.offsets:
        extents = _checked_extents
    keys = [f"{labels.name}/{key}" for key in layout.iter_keys()]
    for done, (key, extent) in enumerate(zip(keys, extents(container), strict=True), 1):
        refs[key] = [where, *extent]
        if progress is not None:
            progress(done, len(keys))
    if container.last_chunk < nbytes:
        refs[keys[-1]] = _inline(_filled(container, nbytes))
    return refs


def _coord_refs(name: str, coord: Coord) -> dict[str, Any]:
    """Return the references of a coordinate, its values among them."""
    values = np.ascontiguousarray(coord.values).reshape(coord.values.shape)
    chunks = tuple(max(1, length) for length in values.shape)
    layout = ZarrLayout(values.shape, chunks, values.dtype, is_fortran=False)
    refs = _head_refs(name, layout, coord.dims, coord.attrs)
    for key in layout.iter_keys():
        refs[f"{name}/{key}"] = _inline(values.tobytes())
    return refs


def _head_refs(
    name: str,
    layout: ZarrLayout,
    dims: tuple[str, ...],
    attrs: Mapping[str, Any],
    compressor: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the references of the metadata of an array in the group."""
    if not name or name.startswith(".") or "/" in name:
        raise UnsupportedError(f"{name!r:.80} is no name of an array in a Zarr group; give 'name'")
    return {
        f"{name}/{ARRAY_KEY}": json_text(layout.document(compressor)),
        f"{name}/{ATTRS_KEY}": json_text({**attrs, _DIMS_KEY: list(dims)}),
    }


def _check_grid(array: Array, layout: ZarrLayout, nbytes: int) -> None:
    """Check that each chunk of the file is one of the grid, of `nbytes` but for the last."""
    container = array._open_container()
    # Version 2 of the format has last chunks that are larger than the others.
    if array.chunks is None or container.last_chunk > nbytes:
        raise UnsupportedError(
            f"{container.nchunks} chunks of {container.chunk_nbytes(0)} bytes are not whole rows "
            f"of an array of shape {str(array.shape)[:80]} and {array.dtype.itemsize} bytes an "
            "item, so that no references to them make a Zarr array; read it with "
            "bloscpack.as_zarr or bloscpack.load, or save it anew with bloscpack.save"
        )


def _codec_of(header: ChunkHeader) -> str:
    """Return the codec of a chunk.

    Raises
    ------
    UnsupportedError
        It is one that numcodecs is built without.
    """
    if header.is_memcpy and header.codec not in _CODECS:
        return _CODECS[0]
    if header.codec not in _CODECS:
        raise UnsupportedError(
            f"a chunk is compressed with {header.codec}, which numcodecs is built without; read "
            "the array with bloscpack.as_zarr or bloscpack.load, or save it anew with "
            "bloscpack.save"
        )
    return header.codec


def _checked_extents(container: Container) -> Iterator[Extent]:
    """Yield offset and size of each chunk, its checksum compared."""
    for group in prefetched(container.source, range(container.nchunks), container.extent):
        for index in group:
            offset, _, header = container.fetch(index)
            _codec_of(header)
            yield offset, header.cbytes
    container.check_end()


def _table_extents(container: Container) -> Iterator[Extent]:
    """Yield offset and size of each chunk by the offset table; only both ends are looked at.

    Where both are where the table says, and it ascends, it leads nowhere beyond the file.
    """
    offsets = container.read_offsets()
    size = container.header.checksum.nbytes
    last = container.fetch(container.nchunks - 1)
    _codec_of(last.header)
    extents = [(offset, following - offset - size) for offset, following in pairwise(offsets)]
    extents.append((last.offset, last.header.cbytes))
    if last.offset != offsets[-1]:
        raise FormatError(
            "offset table: the entries do not lead from the first chunk to the last",
            field="offsets",
        )
    yield from extents


def _filled(container: Container, nbytes: int) -> bytes:
    """Return the last chunk, filled up with zeros to `nbytes`, compressed like the first."""
    header = container.fetch(0).header
    content = bytearray(nbytes)
    container.read_chunk_into(container.nchunks - 1, memoryview(content)[: container.last_chunk])
    return encode(content, CodecParams(_codec_of(header), 5, header.shuffle, header.typesize or 1))


def _inline(data: bytes) -> str:
    return f"base64:{b64encode(data).decode('ascii')}"
