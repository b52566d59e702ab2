"""References to the chunks of a file, by which Zarr readers find them.

If chunks are whole rows or those of a grid, Zarr decodes them: Blosc chunks by numcodecs alone,
array chunks by our codec. A reference gives the offset and size of a chunk, without the checksum
behind it. Zarr cannot read a short last chunk, so it is padded and stored in the references.
"""

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ..array.array import Array
from ..array.axislabels import Coord, Labels
from ..array.layout import auto_params
from ..container.reader import Container
from ..exceptions import FormatError, UnsupportedError
from ..format.codec import CHUNK_HEADER_SIZE, ChunkHeader, CodecParams, encode
from ..format.header import FEATURE_ARRAY_CHUNKS
from ..keywords import explain_keywords
from ..notice import notice
from ..parallel.progressbar import as_progress
from ..storage.file import Place
from ..storage.protocol import Extent, errors_at
from ..storage.remote.prefetch import prefetched
from ..storage.url import is_url, shown
from ..types import Progress, ProgressOption
from .zarrlayout import ARRAY_CHUNK_CODEC, ARRAY_KEY, ATTRS_KEY, ZarrLayout, json_text

__all__ = ["kerchunk_references"]

# Attribute by which xarray finds the names of axes in version 2 of the Zarr format.
_DIMS_KEY = "_ARRAY_DIMENSIONS"
# Codecs of numcodecs, which is built without Snappy.
_CODECS = ("zstd", "lz4", "blosclz", "zlib")


@explain_keywords()
def kerchunk_references(
    path: Any,
    *,
    url: str | None = None,
    name: str | None = None,
    dims: Sequence[str] | None = None,
    verify: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Return references by which Zarr and xarray read the chunks of a file themselves.

    Their readers do not need this package, unless the file has array chunks (``codec="auto"``).

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file, or its URL.
    url : str, optional
        Path or URL by which readers find the file; by default its absolute path, or its URL.
    name : str, optional
        Name of the array in the Zarr group; by default ``attrs["name"]``, else "data".
    dims : sequence of str, optional
        Names of the axes; by default ``attrs["dims"]``, else ``dim_0`` and so on.
    verify : bool, default True
        Read every chunk and compare its checksum, which readers of references cannot do. If False,
        only the offset table, the first and the last chunk are read.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL.
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with (chunks done, chunks in all) after each chunk
        that is read.

    Returns
    -------
    dict
        JSON values in version 1 of kerchunk's format, for fsspec's file system ``reference``. They
        include coordinates from the attrs and, if the last chunk is short, a padded copy of it.

    Raises
    ------
    UnsupportedError
        Zarr cannot read the chunks: they are neither whole rows nor parts of a grid that divides
        the array, they are compressed with Snappy, or Zarr does not have the dtype. Or the attrs
        do not fit the array.
    FormatError
        The file is damaged, or of another type.
    TypeError
        `path` is not a path or URL, and `url` is not given.
    ValueError
        `path` is a URL with a password or a query, which may be secret, and `url` is not given.

    Notes
    -----
    References are valid for this state of the file: create new ones after rows were appended. If
    the file is a log, its next change may use the space of old chunks, so that these references
    lead to other items; a `BloscpackWarning` says so. `bloscpack.compact` makes a file that is not
    a log.
    Readers do not compare checksums, and zarr reads a missing file as fill values;
    `bloscpack.as_zarr` has neither problem. Array chunks have the codec ``bloscpack_array_chunk``,
    which numcodecs finds if this package is installed; other readers raise an error.

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
    where = _place(Place.of(path).path) if url is None else url
    with (
        Array(path, verify=verify, storage_options=storage_options) as array,
        errors_at(array.container.name),
    ):
        if array.container.front.commit is not None:
            notice("%s: the next change makes these references wrong", array.name or "memory")
        labels = Labels.unpack(
            array.attrs, array.shape, name=name, dims=dims, open_array=array._open_other
        )
        layout = ZarrLayout.of(array)
        refs = {".zgroup": json_text({"zarr_format": 2}), ATTRS_KEY: "{}"}
        refs |= _array_refs(
            array, labels, layout, where, verify, as_progress(progress, unit="chunks")
        )
        for each, coord in labels.coords.items():
            refs |= _coord_refs(each, coord)
    return {"version": 1, "refs": refs}


def _place(path: Any) -> str:
    if is_url(path):
        if shown(path) != path:
            raise ValueError(
                f"{shown(path)}: references would publish the password or query of this URL: give "
                "'url' for readers"
            )
        return str(path)
    if isinstance(path, str | os.PathLike):
        return os.path.abspath(os.fsdecode(path))
    raise TypeError(f"references need a path or URL: give 'url' for {type(path).__name__}")


def _array_refs(
    array: Array,
    labels: Labels,
    layout: ZarrLayout,
    where: str,
    verify: bool,
    progress: Progress | None,
) -> dict[str, Any]:
    """Return the references of the array itself."""
    container = array.container
    attrs = dict(labels.attrs)
    others = [name for name, coord in labels.coords.items() if coord.dims != (name,)]
    if others:  # netCDF separates coordinates from data by this attribute
        attrs.setdefault("coordinates", " ".join(others))
    if not array.size:
        return _head_refs(labels.name, layout, labels.dims, attrs)
    nbytes = prod(layout.chunks) * layout.dtype.itemsize
    _check_grid(array, nbytes)
    refs = _head_refs(labels.name, layout, labels.dims, attrs, _compressor(container))
    extents = _table_extents
    if verify or not container.header.offsets:
        extents = _checked_extents
    source, start = container.source, container.source.origin  # of a member of an archive
    keys = [f"{labels.name}/{key}" for key in layout.iter_keys()]
    for done, (key, extent) in enumerate(zip(keys, extents(container), strict=True), 1):
        if start is None:  # no bytes of the file are the chunk, as it is in a bundle
            refs[key] = _inline(bytes(source.read_at(*extent)))
        else:
            refs[key] = [where, start + extent[0], extent[1]]
        if progress is not None:
            progress(done, len(keys))
    if container.last_chunk < nbytes:
        refs[keys[-1]] = _inline(_filled(container, array, nbytes))
    return refs


def _coord_refs(name: str, coord: Coord) -> dict[str, Any]:
    """Return the references of a coordinate, including its values."""
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
        raise UnsupportedError(f"{name!r:.80} cannot name an array in a Zarr group; give 'name'")
    return {
        f"{name}/{ARRAY_KEY}": json_text(layout.document(compressor)),
        f"{name}/{ATTRS_KEY}": json_text({**attrs, _DIMS_KEY: list(dims)}),
    }


def _check_grid(array: Array, nbytes: int) -> None:
    """Raise unless each chunk is one of the Zarr grid: `nbytes` bytes, the last one at most."""
    container = array.container
    # In version 2 of the Bloscpack format the last chunk may be larger than the others.
    if array.chunks is None or container.last_chunk > nbytes:
        raise UnsupportedError(
            f"{container.nchunks} chunks of {container.chunk_nbytes(0)} bytes are not whole rows "
            f"of an array of shape {str(array.shape)[:80]} and {array.dtype.itemsize} bytes an "
            "item, so Zarr cannot read them; read the array with bloscpack.as_zarr or "
            "bloscpack.load, or save it again with bloscpack.save"
        )
    cut = any(n % step for n, step in zip(array.shape, array.chunks, strict=True))
    if container.grid is not None and cut:
        raise UnsupportedError(
            f"chunks of shape {array.chunks} do not divide an array of shape {array.shape}, and "
            "Zarr cannot read the smaller ones at its edges; read the array with "
            "bloscpack.as_zarr or bloscpack.load"
        )


def _has_array_chunks(container: Container) -> bool:
    """Return whether the file may have array chunks, beside Blosc chunks."""
    return bool(container.header.features & FEATURE_ARRAY_CHUNKS)


def _compressor(container: Container) -> dict[str, Any]:
    """Return the codec of numcodecs that decodes all chunks."""
    if _has_array_chunks(container):
        return {"id": ARRAY_CHUNK_CODEC}
    first = container.fetch(0).header
    return {
        "id": "blosc",
        "cname": _codec_of(first),
        "clevel": 5,
        "shuffle": int(first.shuffle),
        "blocksize": 0,
    }


def _codec_of(header: ChunkHeader) -> str:
    """Return the codec of a Blosc chunk."""
    if header.is_memcpy and header.codec not in _CODECS:
        return _CODECS[0]
    if header.codec not in _CODECS:
        raise UnsupportedError(
            f"a chunk is compressed with {header.codec}, which numcodecs is built without; read "
            "the array with bloscpack.as_zarr or bloscpack.load, or save it again with "
            "bloscpack.save"
        )
    return header.codec


def _checked_extents(container: Container) -> Iterator[Extent]:
    """Yield offset and size of each chunk after comparing its checksum."""
    for group in prefetched(container.source, range(container.nchunks), container.stored.extent):
        for index in group:
            offset, _, header = container.fetch(index)
            if not _has_array_chunks(container):
                _codec_of(header)
            yield offset, header.cbytes
    container.stored.check_end()


def _table_extents(container: Container) -> Iterator[Extent]:
    """Yield offset and size of each chunk from the offset table; only its ends are checked.

    If both ends agree with the chunks and the offsets ascend, all of them lie within the file.
    """
    if container.front.commit is not None:  # chunks of a log are in any order
        yield from _checked_extents(container)
        return
    offsets = container.stored.offsets()
    size = container.header.checksum.nbytes
    last = container.fetch(container.nchunks - 1)
    if not _has_array_chunks(container):
        _codec_of(last.header)
    extents = [(offset, following - offset - size) for offset, following in pairwise(offsets)]
    extents.append((last.offset, last.header.cbytes))
    if last.offset != offsets[-1] or min(nbytes for _, nbytes in extents) < CHUNK_HEADER_SIZE:
        raise FormatError(
            "offset table: the entries do not lead from the first chunk to the last",
            field="offsets",
        )
    yield from extents


def _filled(container: Container, array: Array, nbytes: int) -> bytes:
    """Return the last chunk, padded with zeros to `nbytes`, compressed like the others."""
    content = bytearray(nbytes)
    container.read_chunk_into(container.nchunks - 1, memoryview(content)[: container.last_chunk])
    return encode(content, _params(container, array))


def _params(container: Container, array: Array) -> CodecParams:
    """Return the parameters of new chunks like those of the file."""
    if _has_array_chunks(container):
        return auto_params((array.dtype, array.shape, array.is_fortran))
    header = container.fetch(0).header
    return CodecParams(_codec_of(header), 5, header.shuffle, header.typesize or 1)


def _inline(data: bytes) -> str:
    return f"base64:{b64encode(data).decode('ascii')}"
