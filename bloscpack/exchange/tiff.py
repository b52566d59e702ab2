"""TIFF and OME-TIFF stacks (tifffile): an array whose last axes are pages; one page is in memory.

Attributes are in the JSON description that tifffile writes. OME-TIFF has the names of axes alone.
"""

import io
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from math import prod
from typing import Any

import numpy as np

from ..plugin import (
    PART_NBYTES,
    Add,
    AnyArray,
    ArrayFormat,
    ArraySource,
    ArrayWriter,
    ByteSource,
    CopyJob,
    Rows,
    SeveralArrays,
    UnsupportedError,
    attributes,
    optional_library,
    quoted,
    stored_attrs,
)
from .arraytree import ArrayTree, Node, unwritten
from .library import SourceStream, bytes_behind, chosen, errors_of
from .npy import ItemRows

with optional_library("tifffile", "tiff"):
    import tifffile

_WHAT = "a TIFF file"
_MAX_PAGE_NBYTES = 1 << 30
_RESERVED = {"shape", "axes", "truncated"}
# Tags that say how pages are stored.
_STRUCTURE = {
    *("ImageWidth", "ImageLength", "ImageDepth", "BitsPerSample", "SamplesPerPixel"),
    *("SampleFormat", "Compression", "Predictor", "FillOrder", "JPEGTables", "RowsPerStrip"),
    *("StripOffsets", "StripByteCounts", "TileWidth", "TileLength", "TileDepth", "TileOffsets"),
    *("TileByteCounts", "PageNumber"),
}
# Tags with the places of further lists of tags, which may be behind everything else.
_OTHER_LISTS = {"SubIFDs", "ExifTag", "GPSTag", "InteroperabilityTag"}
# Zeros at the end, up to a round number of bytes.
_MAX_PADDING = 64
# Values of other tags that say nothing, or no more than the array.
_USUAL: dict[str, tuple[Any, ...]] = {
    "NewSubfileType": (0, 2),
    "PhotometricInterpretation": (1, 2),
    "PlanarConfiguration": (1,),
    "Orientation": (1,),
    "XResolution": ((1, 1),),
    "YResolution": ((1, 1),),
    "ResolutionUnit": (1,),
    "ExtraSamples": ((2,),),
    "Software": ("tifffile.py",),
}
# Values of OME metadata of the same kind.
_OME_STRUCTURE = {
    *("ID", "UUID", "Creator", "DimensionOrder", "Type", "BigEndian", "Interleaved"),
    *("SizeX", "SizeY", "SizeZ", "SizeC", "SizeT", "SamplesPerPixel", "SignificantBits"),
    *("IFD", "PlaneCount", "FirstC", "FirstT", "FirstZ"),
}
# Words of tifffile about pages that it leaves out.
_DAMAGE = re.compile("TiffTag|invalid.*offset|corrupt|failed|truncated")
# Axes of an OME-TIFF without names.
_OME_AXES = {2: "YX", 3: "TYX", 4: "TCYX", 5: "TZCYX"}


@contextmanager
def open_tiff(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[SeveralArrays]:
    """Yield a series of pages of a TIFF file; series are named by their numbers."""
    tree = ArrayTree(_WHAT, source.name)
    with ExitStack() as stack:
        with errors_of(_WHAT, source.name), _complaints():
            # An OME-TIFF may name other files, which must not be opened.
            stream = io.BufferedReader(SourceStream(source))
            file = stack.enter_context(tifffile.TiffFile(stream, _multifile=False))
            # Of all pages, before tifffile keeps the tags of the first of equal pages alone.
            # Their number is known, so that those of a chain that leads back come to an end.
            pages = list(map(file.pages.__getitem__, range(len(file.pages))))
            tags = [tag for page in pages for tag in page.tags.values()]
            end = _end(pages)
            names = [str(number) for number in range(len(file.series))]
            series = file.series[int(chosen(inner, names, _WHAT, source.name))]
            node = _node(file, series)
            end = max(end, (series.dataoffset or 0) + series.nbytes)
            node.lost = list(dict.fromkeys(_others(file, series, tags, node)))
            is_known = not any(tag.name in _OTHER_LISTS for tag in tags)
            if is_known and any(bytes(source.read_at(end, _MAX_PADDING))):
                node.lost += bytes_behind(source, end)
            is_raw = series.keyframe.photometric != tifffile.PHOTOMETRIC.YCBCR
        node.rows, node.chunks = _rows(source, file, series)
        if why := unwritten(series.nbytes, source.size):
            raise UnsupportedError(f"{_WHAT}: {why}").at(path=source.name)
        tree.add(node)
        with tree.arrays("").open("") as array:
            yield SeveralArrays.of(array._replace(is_raw=is_raw).native())


def _end(pages: list[Any]) -> int:
    """Return the end of the last part of a file: list of tags, value of a tag or strip."""
    end, values = 0, set[int]()
    for page in pages:
        # Of big files, which have wider fields.
        head, entry, tail = (8, 20, 8) if page.parent.is_bigtiff else (2, 12, 4)
        tags = page.tags.values()
        # tifffile leaves room for values that a page shares with the one before.
        room = sum(tag.valuebytecount for tag in tags if tag.valueoffset in values)
        ends = [page.offset + head + entry * len(tags) + tail + room]
        ends += [tag.valueoffset + tag.valuebytecount for tag in tags]
        ends += map(sum, zip(page.dataoffsets, page.databytecounts, strict=False))
        end = max(end, *ends)
        values.update(tag.valueoffset for tag in tags)
    return end


def _rows(source: ByteSource, file: Any, series: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Return the pages of a series, and the shape of the chunks in which they are read."""
    dtype = np.dtype(series.dtype)
    lead = series.shape[: len(series.shape) - len(series.keyframe.shape)]
    if series.dataoffset is not None:  # items are adjacent
        dtype = dtype.newbyteorder(file.byteorder)
        shape = tuple(map(int, series.shape))
        offset = series.dataoffset
        return ItemRows(source, offset, shape, dtype, is_fortran=False, what=_WHAT), None
    page_nbytes = prod(series.keyframe.shape) * dtype.itemsize
    if (*lead, *series.keyframe.shape) != series.shape or page_nbytes > _MAX_PAGE_NBYTES:
        raise UnsupportedError(
            f"{_WHAT}: not a stack of equal pages of at most 1 GiB; read it with tifffile"
        ).at(path=source.name)

    def read(place: tuple[slice, ...]) -> AnyArray:
        whole = [one.stop - one.start for one in place[: len(lead)]]
        part = np.empty((*whole, *(one.stop - one.start for one in place[len(lead) :])), dtype)
        for index in np.ndindex(*whole):
            at = tuple(one.start + k for one, k in zip(place, index, strict=False))
            number = int(np.ravel_multi_index(at, lead)) if lead else 0
            with errors_of(f"{_WHAT}: page {number}", source.name):
                page = series.pages[number]
                if page is None:
                    raise ValueError("it is missing, or in another file")
                part[index] = page.asarray()[place[len(lead) :]]
        return part

    pages = (*(1 for _ in lead), *series.keyframe.shape)
    rows = Rows(series.shape, dtype.newbyteorder("="), read)
    return rows, pages if len(lead) > 1 else None


def _others(file: Any, series: Any, tags: list[Any], node: Node) -> Iterator[str]:
    """Yield short texts for everything in a file that the array and its attributes do not have."""
    described = {
        "shaped": series.keyframe.shaped_description,
        "imagej": series.keyframe.imagej_description,
        "ome": file.ome_metadata,
    }.get(series.kind)
    usual, found = dict(_USUAL), dict[str, str]()
    if (keyframe := series.keyframe).photometric == tifffile.PHOTOMETRIC.MINISBLACK:
        # All samples of gray are alike: they are an axis of the array, in planes or not.
        usual |= {
            "PlanarConfiguration": (1, 2),
            "ExtraSamples": ((0,) * len(keyframe.extrasamples),),
        }
    for tag in tags:
        is_usual = tag.name in _STRUCTURE or tag.value in usual.get(tag.name, ())
        is_carried = (
            tag.value == described
            if tag.name == "ImageDescription"
            else series.kind == "imagej" and tag.name.startswith("IJMetadata")
        )
        if not is_usual and not is_carried:
            text = f": {tag.value!r:.60}" if isinstance(tag.value, str) else ""
            found.setdefault(tag.name, text)
    yield from (f"tag {quoted(name)}{value}" for name, value in found.items())
    # There is not one for each axis, they do not differ, or they have no meaning.
    if "axes" in _description(series) and node.dims is None and "dims" not in node.rest:
        yield "names of the axes"
    if series.kind == "ome":
        for path, value in _values(tifffile.xml2dict(file.ome_metadata)):
            if not (path.endswith("Image.Name") and re.fullmatch("Image[0-9]+", str(value))):
                yield f"OME metadata {quoted(path)}"
    if (others := len(file.pages) - sum(map(len, file.series))) > 0:
        yield f"pages that are in no series: {others}"


def _values(found: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the places and the values of OME metadata that the array does not have."""
    for key, value in found.items() if isinstance(found, dict) else ():
        for number, each in enumerate(value if isinstance(value, list) else [value]):
            place = f"{path}.{key}" if path else key
            place += f"[{number}]" * isinstance(value, list)
            if isinstance(each, dict):
                yield from _values(each, place)
            elif each is not None and key[0] != "{" and key not in _OME_STRUCTURE:
                yield place, each


@contextmanager
def _complaints() -> Iterator[None]:
    """Raise ValueError if tifffile logs damage: it then leaves out pages or tags."""
    logger, messages = logging.getLogger("tifffile"), list[str]()

    def note(record: logging.LogRecord) -> bool:
        messages.append(record.getMessage())
        return True

    logger.addFilter(note)
    try:
        yield
    finally:
        logger.removeFilter(note)
    for message in filter(_DAMAGE.search, messages):
        raise ValueError(message)


def _stored(source: ArraySource, job: CopyJob, of: str) -> ArraySource:
    """Return an array as its TIFF file has it; an OME-TIFF has the names of axes alone."""
    shape: tuple[int, ...] = source.rows.shape
    attrs = stored_attrs(source.attrs, shape)
    source = source._replace(attrs=attrs)
    if _is_ome(job) and not _axes(attrs, len(shape)):
        is_rgb = _is_rgb(source)
        default = _OME_AXES.get(len(shape) - is_rgb, "") + "S" * is_rgb
        if len(default) == len(shape):
            job.leave_out(*["names of the axes"] * ("dims" in attrs))
            attrs = {**attrs, "dims": list(default)}
    lost = attrs.keys() - {"dims"} if _is_ome(job) else attrs.keys() & _RESERVED
    job.leave_out(*attributes([key for key in attrs if key in lost], of))
    return source.native()._replace(attrs={key: attrs[key] for key in attrs if key not in lost})


def _is_ome(job: CopyJob) -> bool:
    return job.where.lower().endswith((".ome.tif", ".ome.tiff"))


def _is_rgb(source: ArraySource) -> bool:
    shape, dtype = source.rows.shape, source.rows.dtype
    return len(shape) > 2 and shape[-1] in (3, 4) and dtype in (np.uint8, np.uint16)


def _axes(attrs: Mapping[str, Any], ndim: int) -> str:
    """Return the names of axes in attrs, as TIFF has them; empty if it cannot have them."""
    dims = attrs.get("dims")
    if not isinstance(dims, list) or len(dims) != ndim:
        return ""
    is_letters = all(isinstance(each, str) and re.fullmatch("[A-Z]", each) for each in dims)
    return "".join(dims) if is_letters else ""


def _description(series: Any) -> dict[str, Any]:
    """Return the JSON in the description that tifffile writes; without attributes until 2017."""
    text = series.keyframe.shaped_description
    is_json = series.kind == "shaped" and not text.startswith("shape=")
    return dict(json.loads(text)) if is_json else {}


def _node(file: Any, series: Any) -> Node:
    """Return the attributes and the names of the axes of a series."""
    found, axes = _description(series), series.axes
    is_named = series.kind in ("ome", "imagej", "lsm") or found.get("axes") == axes
    attrs = {key: value for key, value in found.items() if key not in _RESERVED}
    if series.kind == "imagej":
        attrs = dict(file.imagej_metadata or {})
    if "dims" in attrs:
        return Node("", {}, None, rest=attrs)
    has_names = is_named and not set("QI") & set(axes) and len(set(axes)) == len(axes)
    return Node("", attrs, None, list(axes) if has_names else None)


class _Writer(ArrayWriter):
    """Writes an array to a TIFF file."""

    def __init__(self, path: str, job: CopyJob) -> None:
        self._path, self._job = path, job

    def check(self, name: str, source: ArraySource) -> None:
        shape, dtype = source.rows.shape, source.rows.dtype
        most = {"i": 8, "u": 8, "f": 8, "c": 16}.get(dtype.kind, 0)
        if dtype.itemsize > most or not source.nbytes or len(shape) < 2:
            raise UnsupportedError(f"{_WHAT} cannot hold {dtype} of shape {shape}")
        if _is_ome(self._job) and 1 in shape:
            raise UnsupportedError("an OME-TIFF has no axes of length 1")

    def write(self, name: str, source: ArraySource, add: Add) -> None:
        rows, is_rgb, is_ome = source.rows, _is_rgb(source), _is_ome(self._job)
        metadata: dict[str, Any] = {} if is_ome else dict(source.attrs)
        if axes := _axes(source.attrs, len(rows.shape)):
            metadata["axes"] = axes
        with (
            errors_of(f"{_WHAT} cannot hold the array", self._job.name, UnsupportedError),
            tifffile.TiffWriter(self._path, bigtiff=source.nbytes > 1 << 31, ome=is_ome) as file,
        ):
            file.write(
                _pages(source, 3 if is_rgb else 2, add),
                shape=rows.shape,
                dtype=rows.dtype,
                photometric="rgb" if is_rgb else "minisblack",
                compression="zlib",
                metadata=metadata,
            )


def _pages(source: ArraySource, ndim: int, add: Add) -> Iterator[AnyArray]:
    """Yield all pages in order, read as whole chunks where these are small."""
    shape: tuple[int, ...] = source.rows.shape
    page = shape[-ndim:]
    chunks = (*(1 for _ in shape[:-ndim]), *page)
    rows_per_chunk = source.chunk_shape[0]
    if rows_per_chunk * source.nbytes // shape[0] <= 4 * PART_NBYTES and len(shape) > ndim:
        chunks = (rows_per_chunk, *shape[1:])
    for place in source._replace(chunks=chunks, is_fortran=False).parts():
        part = source.rows.read(place)
        for each in np.ascontiguousarray(part).reshape(-1, *page):
            yield each
            add(each.nbytes)


_FORMAT = ArrayFormat(
    "tiff",
    open_tiff,
    lambda path, arrays, job: nullcontext(_Writer(path, job)),
    _stored,
    place=None,
)
copy_to_tiff = _FORMAT.copy
