"""Location of the raw images of many records, for all of them at once.

A few bytes determine the form and position of a raw image: the format version, the size of the
payload, the last configuration record, the conventional values of the layouts before the image, and
the last index entry of layouts with pieces of variable size. Records that agree in these have
images of the same form, so only one of them is decoded. Coded images, images of unknown format, and
records that differ too much are marked `IRREGULAR`: the caller decodes them one by one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...plugin import AnyArray, BloscpackError, FormatError, IntArray, UnsupportedError
from ..block.pixels import PACKED_FORMATS, ImageFormat, ImageSpec, PixelFormat
from ..format.format import RecordType
from ..format.recordformat import ContentBlock, ContentType
from ..layout.conventions import RAW_IMAGE_LABELS
from ..layout.datalayout import INDEX_ENTRY_SIZE, DataLayout, offsets_of
from ..read.decoding import StreamDecoder
from ..read.extents import read_rows
from ..read.record import Block, Record
from ..read.recordset import RecordSet, least_nbytes

# Most groups of records, each of which costs decoding a record: 64, or one per 8 records.
_MAX_KINDS, _MAX_KINDS_PART = 64, 8
# Longest range of bytes that is read from a layout for the values that describe an image.
_MAX_SPAN_NBYTES = 256

# Values of `PlaceColumns.form_of` in place of a form.
UNKNOWN, IRREGULAR = -2, -1


class ImageForm(NamedTuple):
    """Memory layout of a raw image."""

    # Shape and strides in bytes of the first plane, which starts where the image starts.
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]  # dtype of the pixels
    nbytes: int  # bytes of the block
    is_picture: bool  # whether a file of pictures has its pixels as they are

    @property
    def extent(self) -> int:
        """Bytes from the first to the last byte of the plane, both included."""
        last = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        return last + self.dtype.itemsize

    @property
    def is_tight(self) -> bool:
        """Whether the plane is C-contiguous."""
        return self.extent == self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    def view(self, data: memoryview) -> AnyArray:
        """Return the plane as a view of the bytes of the block."""
        return np.ndarray(self.shape, self.dtype, data, 0, self.strides)


def image_index(contents: tuple[ContentBlock, ...], block: int | None) -> int | None:
    """Return the index of the first image block of a record format, or `block` if it is one."""
    for index, content in enumerate(contents):
        if content.content_type == ContentType.IMAGE and block in (None, index):
            return index
    return None


def image_block(record: Record, contents: tuple[ContentBlock, ...], index: int) -> Block:
    """Return the image block of a record for block `index` of its format."""
    empty = sum(content.content_type == ContentType.EMPTY for content in contents[:index])
    blocks = record.blocks
    place = index - empty
    if place >= len(blocks):
        raise FormatError(f"block {index} is missing: {record.note}")
    if blocks[place].kind != "image":
        raise UnsupportedError(f"block {index} is an image of unknown size and format")
    return blocks[place]


def is_picture(block: Block) -> bool:
    """Return whether pixels of an image neither begin with blue nor are four in five bytes."""
    spec = block.spec
    if not isinstance(spec, ImageSpec) or spec.image_format != ImageFormat.RAW:
        return True
    return spec.pixel_format not in (PixelFormat.BGR8, *PACKED_FORMATS)


class PlaceColumns:
    """Cached locations of images, as plain arrays of shape (N,).

    `form_of` has the index in `forms` for each image; `IRREGULAR` if the record must be decoded,
    `UNKNOWN` if it was not requested yet. `starts` are positions of the images in the payloads.
    `irregular` has shape and dtype of irregular images that were decoded, by index of the record.
    """

    __slots__ = ("form_of", "forms", "irregular", "starts")

    def __init__(self, nrecords: int) -> None:
        self.forms: list[ImageForm] = []
        self.form_of: NDArray[np.int32] = np.full(nrecords, UNKNOWN, np.int32)
        self.starts: IntArray = np.zeros(nrecords, np.int64)
        self.irregular: dict[int, tuple[tuple[int, ...], np.dtype[Any]]] = {}


class ImagePlaces:
    """Locations of the images in the records of a stream and type.

    `block` is the index of the image block in the record format; None for the first one. `load`
    fills in `columns`. Safe from many threads, which may do the same work twice.
    """

    def __init__(self, records: RecordSet, block: int | None) -> None:
        self.records = records
        self.block = block
        key = PlaceColumns, records.ordinal, int(records.record_type), block
        self.columns: PlaceColumns = records.content.cache.setdefault(
            key, PlaceColumns(len(records))
        )

    def load(self, indices: IntArray) -> None:
        """Locate the images of some records that were not located before."""
        form_of = self.columns.form_of
        missing = np.unique(indices[form_of[indices] == UNKNOWN])
        if not len(missing):
            return
        records = self.records
        records.load(missing)
        versions = records.headers.versions[missing]
        for version in np.unique(versions).tolist():
            some = missing[versions == version]
            decoder = records.decoder(version)
            index = image_index(decoder.contents, self.block)
            if index is None or decoder.contents[index].image.image_format != ImageFormat.RAW:
                form_of[some] = IRREGULAR
            else:
                self._load_version(decoder, index, some)

    def _load_version(self, decoder: StreamDecoder, index: int, some: IntArray) -> None:
        """Group records whose images have the same form, and decode one record of each group."""
        form_of = np.full(len(self.records), IRREGULAR, np.int32)
        found = self._find_keys(decoder, index, some)
        if found is not None and len(found[0]):
            self._group(decoder, index, found, form_of)
        # Published last: another thread may read `form_of` at any time.
        self.columns.form_of[some] = form_of[some]

    def _group(
        self,
        decoder: StreamDecoder,
        index: int,
        found: tuple[IntArray, IntArray, list[IntArray]],
        form_of: NDArray[np.int32],
    ) -> None:
        some, starts, keys = found
        self.columns.starts[some] = starts
        _, first, group = np.unique(
            np.stack(keys, axis=1), axis=0, return_index=True, return_inverse=True
        )
        if len(first) <= max(_MAX_KINDS, len(some) // _MAX_KINDS_PART):
            forms = [self._form(decoder, index, int(some[k])) for k in first.tolist()]
            form_of[some] = np.array(forms, np.int32)[group.reshape(-1)]

    def _find_keys(
        self, decoder: StreamDecoder, index: int, some: IntArray
    ) -> tuple[IntArray, IntArray, list[IntArray]] | None:
        """Return records, the positions of their images, and columns that determine their form.

        Records whose image position is unknown are left out; None if no record remains.
        """
        records, contents, layouts = self.records, decoder.contents[: index + 1], decoder.layouts
        sizes = [least_nbytes(contents[k], layouts.get(k)) for k in range(index)]
        says_all = contents[index].image.raw_nbytes is not None
        values = {k: _image_bytes(layouts[k]) for k in layouts if k < index and not says_all}
        if any(map(len, values.values())) or any(layouts[k].variable for k in layouts if k < index):
            some = some[records.headers.compressions[some] == 0]
        columns: list[IntArray] = [some, np.zeros(len(some), np.int64)]
        for k, nbytes in enumerate(sizes):
            if nbytes is None:
                return None
            fits = columns[1] + nbytes <= records.headers.nbytes[columns[0]]
            columns = [column[fits] for column in columns]
            if k in layouts:
                wanted = values.get(k, np.empty(0, np.int64))
                if len(wanted):
                    low, span = int(wanted[0]), int(wanted[-1] - wanted[0]) + 1
                    if span > _MAX_SPAN_NBYTES:
                        return None
                    found = self._read(columns, low, span, np.dtype("u1"))
                    columns += [found[at] for at in (wanted - low).tolist()]
                if layouts[k].variable:
                    # The last entry of the index determines the end of the block.
                    at = nbytes - INDEX_ENTRY_SIZE
                    columns[1] = columns[1] + sum(
                        self._read(columns, at, INDEX_ENTRY_SIZE, np.dtype("<u4"))
                    )
            columns[1] = columns[1] + nbytes
        some, starts, *keys = columns
        keys.append(records.headers.nbytes[some] - starts)
        if not says_all:
            rows = records.rows[some]
            kinds = records.content.rows_of(records.ordinal, RecordType.CONFIGURATION)
            # A record with a NaN time does not use any configuration record.
            is_no_time = np.isnan(records.content.table.timestamp[rows])
            keys += [np.searchsorted(kinds, rows), is_no_time.astype(np.int64)]
        return some, starts, keys

    def _read(
        self, columns: list[IntArray], at: int, nbytes: int, dtype: np.dtype[Any]
    ) -> list[IntArray]:
        """Return columns of the numbers at position `at` in the blocks given by `columns`."""
        records = self.records
        places = records.headers.offsets[columns[0]] + columns[1] + at
        rows = read_rows(records.content.source, places, nbytes).view(dtype)
        return list(rows.astype(np.int64).T)

    def _form(self, decoder: StreamDecoder, index: int, number: int) -> int:
        """Decode a record and return the index of its image's form, or `IRREGULAR`."""
        try:
            block = image_block(self.records.record(number), decoder.contents, index)
            pixels = block.array()
        except BloscpackError:
            return IRREGULAR  # reading this image raises the error
        place = pixels.shape, pixels.strides, pixels.dtype, len(block.data)
        form = ImageForm(*place, is_picture(block))
        forms = self.columns.forms
        if form not in forms:
            forms.append(form)
        return forms.index(form)


def _image_bytes(layout: DataLayout) -> IntArray:
    """Return the positions in a block of all bytes of the values that describe an image."""
    found: list[int] = []
    offsets = offsets_of(layout)
    for key, piece in layout.fixed:
        if piece.label in RAW_IMAGE_LABELS and piece.nbytes <= _MAX_SPAN_NBYTES:
            found.extend(range(offsets[key], offsets[key] + piece.nbytes))
    return np.array(found, np.int64)
