"""Cutting the payload of a record into the bytes of each column.

The parts concatenate to the payload. A payload that does not fit its format, or metadata that a
writer would encode differently, is one part.
"""

from struct import Struct
from typing import Any, TypeAlias, cast

import numpy as np

from ...plugin import BloscpackError, BytesLike, image
from ..block.audio import AudioFormat, AudioSpec
from ..block.pixels import ImageFormat, ImageSpec, image_view
from ..format.recordformat import ContentType
from ..layout.datalayout import INDEX_ENTRY_SIZE, DataLayout
from ..read.decoding import StreamDecoder
from ..read.record import Block, Record
from .clipcolumns import item_of

Key: TypeAlias = tuple[tuple[Any, ...], ...]
"""Blocks of a payload: a tuple for each, its kind first. Equal keys have equal columns."""
RAW: Key = (("raw",),)
"""Key of payloads that are stored uncut."""


def cut(record: Record) -> tuple[Key, tuple[Block, ...], list[BytesLike]]:
    """Return the key, the blocks and the parts of the payload of a record.

    If the parts would not concatenate to the payload, the payload is one part.
    """
    whole: tuple[Key, tuple[Block, ...], list[BytesLike]] = RAW, (), [record.payload]
    try:
        blocks, note = record.blocks, record.note
    except BloscpackError:
        return whole
    if note is not None:
        return whole
    key: list[tuple[Any, ...]] = []
    parts: list[BytesLike] = []
    for block in blocks:
        if not block.is_whole or block.nbytes is None:
            return whole
        if block.kind == "metadata":
            pieces = _cut_metadata(block.data, cast(DataLayout, block.spec))
            if pieces is None:
                return whole
            key.append(("metadata",))
            parts += pieces
        else:
            key.append(_kind_of(block))
            parts.append(block.data)
    return tuple(key), blocks, parts


def _cut_metadata(data: memoryview, layout: DataLayout) -> list[BytesLike] | None:
    """Return the fixed part and the variable pieces; None if the pieces are not contiguous."""
    parts: list[BytesLike] = [data[: layout.fixed_nbytes]] if layout.fixed_nbytes else []
    variable = layout.variable
    if not variable:
        return parts
    index = Struct(f"<{2 * len(variable)}I").unpack_from(data, layout.fixed_nbytes)
    at = 0
    start = layout.fixed_nbytes + INDEX_ENTRY_SIZE * len(variable)
    for (_, piece), offset, nbytes in zip(variable, index[::2], index[1::2], strict=True):
        dtype, shape = item_of(piece)
        if offset != at or nbytes % (dtype.itemsize * int(np.prod(shape))):
            return None
        parts.append(data[start + at : start + at + nbytes])
        at += nbytes
    return parts if start + at == len(data) else None


def _kind_of(block: Block) -> tuple[Any, ...]:
    """Return the kind of column for a block other than metadata."""
    spec = block.spec
    if isinstance(spec, AudioSpec) and spec.audio_format == AudioFormat.PCM:
        dtype, nbytes = spec.sample_dtype, spec.min_frame_nbytes
        is_dense = dtype is not None and 0 < nbytes == spec.frame_nbytes
        if dtype is not None and is_dense and len(block.data) % nbytes == 0:
            return "samples", dtype.str, spec.channel_count
    if block.kind != "image" or not isinstance(spec, ImageSpec):
        return "bytes", block.kind
    try:
        if spec.image_format == ImageFormat.RAW:
            one = image_view(block.data, spec)
            if one.size and len(block.data) == spec.raw_nbytes:
                return "pixels", int(spec.pixel_format), one.shape, spec.row_nbytes, len(block.data)
        elif spec.image_format in (ImageFormat.JPG, ImageFormat.PNG):
            return "images", image.probe(block.data).dtype.str
    except BloscpackError:
        pass  # a damaged image is kept as it is
    return "bytes", block.kind


def fixed_layouts(decoder: StreamDecoder) -> list[DataLayout] | None:
    """Return the layouts if records only have fields of fixed size, else None."""
    try:
        contents, layouts = decoder.contents, decoder.layouts
    except BloscpackError:
        return None
    if not contents or any(each.content_type != ContentType.DATA_LAYOUT for each in contents):
        return None
    found = [layouts[index] for index in sorted(layouts)]
    if len(found) < len(contents) or any(each.undecodable or each.variable for each in found):
        return None
    return found
