"""Arrays in Zarr stores of format 2 and 3: folders, ZIP files, and folders behind URLs.

An array with coordinates is a member of a group, beside them, as xarray has it; xarray then reads
and writes the coordinates. An array with a name is a member of a group, too. Any other array is the
root of its store.
"""

import io
import json
import os
import re
import struct
import warnings
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from ..plugin import (
    TYPES,
    ArrayFormat,
    ArraySource,
    ByteSource,
    Coord,
    CopyJob,
    Labels,
    ListedFolder,
    Rows,
    SeveralArrays,
    UnsupportedError,
    beside,
    default_dims,
    encoded,
    encoded_times,
    hidden_attrs,
    is_safe,
    label_or,
    notice,
    optional_library,
    plain_value,
    quoted,
    typed,
)
from .arraytree import ArrayTree, Node, add_text, unwritten
from .library import SourceStream, errors_of
from .treewriter import REST, NewArray, TreeWriter, coords_of, name_others

with optional_library("'zarr>=3.1.4'", "zarr"):
    import zarr
    from zarr.core.common import concurrent_map
    from zarr.core.sync import sync
    from zarr.dtype import parse_dtype
    from zarr.storage import FsspecStore, LocalStore, ZipStore

_WHAT = "a Zarr store"
# Attribute with the names of axes in format 2, by convention of xarray.
_DIMS = "_ARRAY_DIMENSIONS"
# Names of metadata: an array of such a name would replace them.
_RESERVED = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}
# A chunk is decoded in memory, however small it is stored.
_MAX_CHUNK_NBYTES = 1 << 30
# Names of chunks, or of the folders that they are in.
_CHUNK = re.compile(r"c(\.[0-9.]+)?|[0-9.]+")
# Requests for metadata that wait for their answers at the same time.
_MAX_TASKS = 32
# Types of fill values by the kinds of items that have them.
_FILLS: dict[str, Any] = {"b": bool, "S": str, "U": str} | dict.fromkeys("iuf", np.generic)
# Type of the items in the attribute `TYPES`, which has those of attributes by their names.
_TEXT = {"": "str"}


@contextmanager
def open_zarr(
    source: ByteSource | ListedFolder, inner: str, *, nthreads: int | None
) -> Iterator[SeveralArrays]:
    """Yield all arrays of a Zarr store that are not coordinates, or one."""
    tree = ArrayTree(_WHAT, source.name)
    with _store(source) as store:
        is_stale = False
        with errors_of(_WHAT, source.name), _quiet():
            root = _root(store, source.name)
            if isinstance(root, zarr.Array):
                tree.add(_node("", root, source.name))
                if isinstance(source, ListedFolder):
                    _note_strays(tree, "", source.names)
            else:
                is_stale = _add_members(tree, store, root, source.name)
            found = tree.arrays(inner)
        if is_stale:
            what = "its consolidated metadata differ from those of the arrays, which count"
            notice("%s: %s", source.name or _WHAT, what)
        yield found


def _root(store: Any, where: str | None) -> Any:
    """Return the group or array that a store is; UnsupportedError if a ZIP file has it deeper."""
    try:
        return zarr.open(store=store, mode="r")
    except FileNotFoundError:
        if not isinstance(store, ZipStore):
            raise
        with ZipFile(store.path) as file:
            names = file.namelist()
        found = [each.rpartition("/")[0] for each in names if each.split("/")[-1] in _RESERVED]
        if not any(found):
            raise
        folder = min(filter(None, found), key=len)
        path = f"zip://{folder}::{where or 'FILE'}"
        text = f"{_WHAT} in the folder {folder!r:.80} of a ZIP file; its path is {path!r:.200}"
        raise UnsupportedError(text) from None


def _add_members(tree: ArrayTree, store: Any, root: Any, where: str | None) -> bool:
    """Add all groups and arrays, by their own metadata; return whether consolidated ones differ."""
    is_stale = False
    consolidated = getattr(root.metadata, "consolidated_metadata", None)
    if consolidated is not None:
        root = zarr.open_group(store, mode="r", use_consolidated=False)
    tree.groups[""] = dict(root.attrs)
    members = dict(sorted(sync(_walk(tree, store, root._async_group)).items()))
    if consolidated is not None:
        listed = {path: each.to_dict() for path, each in consolidated.flattened_metadata.items()}
        present = {path: each.metadata.to_dict() for path, each in members.items()}
        is_stale = _text(listed) != _text(present)
    for path, member in members.items():
        if isinstance(member, zarr.Array):
            tree.add(_node(path, member, where))
        else:
            tree.groups[path] = dict(member.attrs)
    return is_stale


async def _walk(tree: ArrayTree, store: Any, root: Any) -> dict[str, Any]:
    """Return the members of a group and of the groups in it; list what else is there.

    zarr lists them with as many requests, but one array that it cannot read would stop that.
    """
    known = {"zarr.json"} if root.metadata.zarr_format == 3 else _RESERVED - {"zarr.json"}
    members: dict[str, Any] = {}
    groups = {"": root}  # of one depth, which has no limit
    while groups:
        names = await concurrent_map([(store, above) for above in groups], _listed, _MAX_TASKS)
        wanted = [
            (f"{above}/{name}" if above else name, group, name)
            for (above, group), found in zip(groups.items(), names, strict=True)
            for name in sorted(found - known)
        ]
        results = await concurrent_map([each[1:] for each in wanted], _member, _MAX_TASKS)
        groups = {}
        for (path, *_), found in zip(wanted, results, strict=True):
            if isinstance(found, KeyError):
                tree.inventory.add(f"file or folder {quoted(path)}")
            elif isinstance(found, Exception):
                tree.add(Node(path, {}, None, why=f"zarr does not read it ({found!s:.80})"))
            elif isinstance(found, zarr.AsyncGroup):
                groups[path] = found
                members[path] = zarr.Group(found)
            else:
                members[path] = zarr.Array(found)
                # Elsewhere a listing costs a request, of as many chunks as there are.
                if isinstance(store, LocalStore):
                    _note_strays(tree, path, os.listdir(store.root / path))
    return members


def _note_strays(tree: ArrayTree, path: str, names: Iterable[str]) -> None:
    """List what is in the folder of an array beside metadata and chunks."""
    for name in sorted(names):
        if name not in _RESERVED and not _CHUNK.fullmatch(name):
            inner = f"{path}/{name}" if path else name
            tree.inventory.add(f"file or folder {quoted(inner)}")


async def _member(group: Any, name: str) -> Any:
    """Return a member of a group, or the error of zarr about it."""
    try:
        return await group.getitem(name)
    except (KeyError, TypeError, ValueError, NotImplementedError) as err:
        return err


async def _listed(store: Any, path: str) -> set[str]:
    """Return the names in a group; a page of a web server has further links, which are none."""
    names = {each.strip("/") async for each in store.list_dir(path)}
    return {each for each in names if each[:1] != "?" and "://" not in each}


def _text(metadata: Any) -> str:
    for each in metadata.values():
        each.pop("consolidated_metadata", None)
    return json.dumps(metadata, sort_keys=True, default=str)


def _node(path: str, array: Any, where: str | None) -> Node:
    """Return an array as it is stored."""
    attrs = {key: value for key, value in dict(array.attrs).items() if key != _DIMS}
    rest = attrs.pop(REST) if isinstance(attrs.get(REST), dict) else {}
    node = Node(path, attrs, None, rest=rest)
    of, dtype = quoted(path) if path else "the array", array.dtype
    node.dims = _dims(array, node.lost, of)
    if not isinstance(dtype, np.dtype) or dtype.kind == "O":
        node.why = f"it has items of {dtype}"
    elif prod(array.chunks) * dtype.itemsize > _MAX_CHUNK_NBYTES:
        node.why = "a chunk of more than 1 GiB"
    else:
        node.why = unwritten(array.nbytes, lambda: _stored_nbytes(array))
    if node.why:
        return node

    def read(place: tuple[slice, ...]) -> Any:
        with errors_of(f"{_WHAT}: array {path!r:.80}", where), _quiet():
            return np.asarray(array[place], dtype)

    if dtype.kind == "T":
        add_text(node, array.shape, read)
        node.rest = rest | {TYPES: _TEXT}
    else:
        node.rows = Rows(array.shape, dtype, read)
    node.chunks = array.chunks if array.size and array.shape else None
    node.attrs = attrs | _fill_attr(array, attrs, node.lost, of)
    return node


def _stored_nbytes(array: Any) -> int:
    """Return the stored size of an array; of one in a ZIP file, that of the file."""
    if isinstance(array.store, ZipStore):
        return int(array.store.path.seek(0, os.SEEK_END))
    return int(array.nbytes_stored())


def _fill_attr(array: Any, attrs: Mapping[str, Any], lost: list[str], of: str) -> dict[str, Any]:
    """Return the fill value of an array as an attribute, or add it to `lost`."""
    dtype, fill, found = array.dtype, array.fill_value, dict[str, Any]()
    if "_FillValue" in attrs:
        found["_FillValue"] = _fill_value(attrs["_FillValue"], dtype)
    if fill is None or (dtype.kind == "T" and not fill) or (dtype.kind in "mM" and np.isnat(fill)):
        return found
    if array.metadata.zarr_format == 2 and dtype.kind in "biufSU":
        # For xarray it is a missing value, and not the one of the attributes.
        if found and _bits(found["_FillValue"], dtype) != _bits(fill, dtype):
            lost.append(f"attribute '_FillValue' beside the fill value of {of}")
        found["_FillValue"] = np.asarray(fill).tolist()
    elif dtype.kind == "T" or _bits(fill, dtype) not in (
        _bits(found.get("_FillValue"), dtype),
        0,
    ):
        lost.append(f"fill value {fill!s:.40} of {of}")
    return found


def _bits(value: Any, dtype: Any) -> Any:
    """Return the bits of an item; 0 if all are zero, None if it is not an item."""
    with suppress(TypeError, ValueError, OverflowError):
        bits = np.array(value, dtype).tobytes() if value is not None else None
        return bits and (bits.strip(b"\0") or 0)
    return None


def _fill_value(value: Any, dtype: Any) -> Any:
    """Return a value for missing data; a float is the text of its bytes, as xarray stores it."""
    if dtype.kind == "f" and isinstance(value, str):
        with suppress(ValueError, struct.error):
            return struct.unpack("<d", b64decode(value))[0]
    return value


def _is_folder(job: CopyJob) -> bool:
    return not job.where.rstrip("/").endswith(".zip")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings about parts of format 3 that are not standardised yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _store(source: ByteSource | ListedFolder) -> Iterator[Any]:
    store: Any
    if not isinstance(source, ListedFolder):
        # ZipStore takes paths only, but hands its path to zipfile, which takes streams.
        store = ZipStore(Path("archive.zip"), mode="r")
        store.path = io.BufferedReader(SourceStream(source))
    elif source.has_latency:
        store = FsspecStore.from_url(source.where, storage_options=source.options, read_only=True)
    else:
        store = LocalStore(source.where, read_only=True)
    try:
        yield store
    finally:
        with suppress(AttributeError):  # a ZIP file that was not opened
            store.close()


def _dims(array: Any, lost: list[str], of: str) -> list[str] | None:
    """Return the names of the axes; None, and a line in `lost`, if they are not understood."""
    if not array.ndim:
        return []
    dims = getattr(array.metadata, "dimension_names", None) or array.attrs.get(_DIMS)
    if dims is None or (isinstance(dims, list | tuple) and set(dims) <= {None, ""}):
        return None
    if isinstance(dims, list | tuple) and len(dims) == array.ndim:
        # An axis without a name has the one that xarray would give it.
        pairs = zip(dims, default_dims(array.shape), strict=True)
        names = [name if each in (None, "") else each for each, name in pairs]
        if all(isinstance(each, str) for each in names):
            return names
    lost.append(f"names {dims!r:.80} of the axes of {of}")
    return None


@contextmanager
def _writing(
    zarr_format: int, path: str, arrays: SeveralArrays, job: CopyJob
) -> Iterator["_Writer"]:
    with closing(LocalStore(path) if _is_folder(job) else ZipStore(path, mode="a")) as store:
        with _quiet():
            writer = _Writer(store, zarr_format, arrays, job)
            yield writer
        for name, fill in writer.fills_of_text.items():
            what = f"missing text is the text {fill} for xarray in format 3; to='zarr2' keeps it"
            notice("%s: %s", name, what)


class _Writer(TreeWriter):
    """Writes arrays to a store."""

    what = _WHAT

    def __init__(self, store: Any, zarr_format: int, arrays: SeveralArrays, job: CopyJob) -> None:
        super().__init__(arrays, job)
        self._store = store
        self._format: dict[str, Any] = {"zarr_format": zarr_format}
        self._is_root = arrays.names == ("",)  # an array, and not a group
        self._lengths: dict[str, int] = {}  # of the axes in a group, by their places
        self.fills_of_text: dict[str, str] = {}  # by the names of arrays, for messages

    def _write_group(self, path: str, attrs: Mapping[str, Any]) -> None:
        if path or not self._is_root:
            zarr.create_group(
                self._store, path=path.strip("/"), attributes=dict(attrs), **self._format
            )

    def _refuse(self, name: str, source: ArraySource, labels: Labels | None) -> None:
        for dtype in (
            source.rows.dtype,
            *(each.values.dtype for each in coords_of(labels).values()),
        ):
            if dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic":
                raise ValueError(f"{dtype} has no unit")
            if parse_dtype(dtype, **self._format).to_native_dtype() != dtype:
                raise UnsupportedError(f"{_WHAT} cannot hold items of {dtype}")

    def _create(self, new: NewArray) -> Any:
        """Create an array, with its coordinates beside it."""
        name, source, labels, attrs, chunks, hidden = new
        for key, coord in coords_of(labels).items():
            self._write_coord(beside(name, key), coord)
        name_others(attrs, labels)
        dims = labels.dims if labels else self._default_dims(name, source.rows.shape)
        for dim, length in zip(dims, source.rows.shape, strict=True) if dims else ():
            self._lengths.setdefault(beside(name, dim), length)
        return self._create_array(name, source.rows, chunks, attrs, dims, hidden)

    def _default_dims(self, name: str, shape: tuple[int, ...]) -> list[str] | None:
        """Return names for axes without names: xarray opens no group with an array of such axes.

        Axes of a group that have one name have one length.
        """
        if self._is_root and shape:
            return None
        return default_dims(shape, lambda dim: self._lengths.get(beside(name, dim)))

    def _unread_fill(self, name: str, attrs: Mapping[str, Any], dtype: Any) -> set[str]:
        """Return the attribute ``_FillValue`` if xarray cannot open an array with it."""
        fill = typed(attrs, dtype).get("_FillValue")
        read: Any = {"c": list, **dict.fromkeys("biuf", np.generic)}.get(dtype.kind, ())
        if self._format["zarr_format"] == 2 or fill is None or isinstance(fill, read):
            return set()
        if dtype.kind in "STU":
            self.fills_of_text[name or _WHAT] = quoted(fill)
        return {"_FillValue"}

    def _create_array(
        self, name: str, like: Any, chunks: Any, attrs: dict[str, Any], dims: Any, odd: Any = ()
    ) -> Any:
        """Create an array of the shape and dtype of `like`; the attrs `odd` are stored as JSON."""
        dtype = like.dtype
        attrs = {key: plain_value(value) for key, value in attrs.items()}
        options = dict(self._format)
        if dtype.kind == "U" and attrs.get(TYPES) == _TEXT:
            dtype = np.dtypes.StringDType()
            del attrs[TYPES]
        hidden = hidden_attrs(attrs) | (attrs.keys() & {REST, _DIMS, *odd})
        hidden |= self._unread_fill(name, {**attrs, **dict.fromkeys(hidden)}, dtype)
        if hidden:
            attrs[REST] = {key: attrs.pop(key) for key in hidden}
        if options["zarr_format"] == 2:
            # xarray takes any value but None for missing data.
            fill = typed(attrs, dtype).get("_FillValue")
            is_fill = isinstance(fill, _FILLS.get(dtype.kind, ()))
            if isinstance(fill, np.generic):  # of another type, it stays an attribute
                is_fill = fill.dtype == dtype.newbyteorder("=")
            none = "" if dtype.kind == "T" else None
            options["fill_value"] = np.array(fill).astype(dtype)[()] if is_fill else none
            if is_fill:
                del attrs["_FillValue"]
            if dims is not None:
                attrs[_DIMS] = list(dims)
        else:
            fill = typed(attrs, dtype).get("_FillValue")
            if isinstance(fill, np.generic):
                options["fill_value"] = fill
            if dtype.kind == "f" and isinstance(fill, np.generic):
                attrs["_FillValue"] = b64encode(struct.pack("<d", fill)).decode()
            if dims is not None:
                options["dimension_names"] = dims
        return zarr.create_array(
            self._store,
            name=name or None,
            shape=like.shape,
            dtype=dtype,
            chunks=chunks or tuple(max(1, length) for length in like.shape),
            attributes=attrs,
            **options,
        )

    def _write_coord(self, path: str, coord: Coord) -> None:
        """Write a coordinate, unless another array of the group has it already."""
        if path in self.written or path in self.made:
            return
        self.written.add(path)
        values = coord.values
        self._create_array(path, values, None, coord.attrs, coord.dims)[...] = values


_FORMAT = ArrayFormat(
    "zarr",
    open_zarr,
    partial(_writing, 3),
    encoded,
    place=label_or(""),
    is_safe=lambda name: is_safe(name) and not _RESERVED & set(name.split("/")),
    is_folder=_is_folder,
)
copy_to_zarr = _FORMAT.copy
copy_to_zarr2 = _FORMAT._replace(
    kind="zarr2", writing=partial(_writing, 2), stored=encoded_times
).copy
