"""Where the raw images of many records lie, found for all at once.

What a raw image is and where it begins follows from few bytes: the format version, the size of the
payload, the last configuration record, the conventional values of the layouts before it and, of
layouts with pieces of variable size, the last entry of their index. Records that agree in these
have their images alike, so that one of them is taken apart for all. Images that are coded, records
that nothing tells about, and those that differ too much are left to whoever takes them apart one
by one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...exceptions import BloscpackError, FormatError, UnsupportedError
from ...types import AnyArray, IntArray
from ..block.pixels import ImageFormat
from ..format.format import RecordType
from ..format.recordformat import ContentBlock, ContentType
from ..layout.conventions import RAW_IMAGE_LABELS
from ..layout.datalayout import INDEX_ENTRY_SIZE, DataLayout
from ..read.decoding import StreamDecoder
from ..read.extents import read_rows
from ..read.record import Block, Record
from ..read.recordset import RecordSet, least_nbytes

# Records that are taken apart to learn what others are like: so many, or this part of them all.
_MAX_KINDS, _MAX_KINDS_PART = 64, 8
# More than the values of a layout that say what a raw image is take, with some others between them.
_MAX_SPAN_NBYTES = 256

UNKNOWN, IRREGULAR = -2, -1


class ImageForm(NamedTuple):
    """What a raw image is in memory.

    Attributes
    ----------
    shape, strides : tuple of int
        Of its first plane, which starts where the image does; strides in bytes.
    dtype : numpy.dtype
        Of the pixels.
    nbytes : int
        Size of the block.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int

    @property
    def extent(self) -> int:
        """Bytes from the first to the last one of the plane."""
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
    """Return the index of the first image of a record format, or `block` if that is one."""
    for index, content in enumerate(contents):
        if content.content_type == ContentType.IMAGE and block in (None, index):
            return index
    return None


def image_block(record: Record, contents: tuple[ContentBlock, ...], index: int) -> Block:
    """Return the image block that a record has for block `index` of its format.

    Raises
    ------
    FormatError, UnsupportedError
        It has none: decoding stopped before, or nothing says what the image is.
    """
    empty = sum(content.content_type == ContentType.EMPTY for content in contents[:index])
    blocks = record.blocks
    place = index - empty
    if place >= len(blocks):
        raise FormatError(f"it has no block {index}: {record.note}")
    if blocks[place].kind != "image":
        raise UnsupportedError(f"block {index} is an image of which nothing tells size and format")
    return blocks[place]


class PlaceColumns:
    """What is kept of the places of images: plain arrays, shape (N,).

    Attributes
    ----------
    forms : list of ImageForm
        The kinds found so far.
    form_of : ndarray of int32
        Which of them each image is; `IRREGULAR` for those to be taken apart, `UNKNOWN` for those
        nobody asked for.
    starts : ndarray of int64
        Where in the payload it begins.
    irregular : dict
        Shape and dtype of those that were taken apart to learn it.
    """

    __slots__ = ("form_of", "forms", "irregular", "starts")

    def __init__(self, nrecords: int) -> None:
        self.forms: list[ImageForm] = []
        self.form_of: NDArray[np.int32] = np.full(nrecords, UNKNOWN, np.int32)
        self.starts: IntArray = np.zeros(nrecords, np.int64)
        self.irregular: dict[int, tuple[tuple[int, ...], np.dtype[Any]]] = {}


class ImagePlaces:
    """The images of the records of a stream and type.

    Parameters
    ----------
    records : RecordSet
        These.
    block : int or None
        Which block of the record format; None for the first image.

    Attributes
    ----------
    records, block
        As the parameters.
    columns : PlaceColumns
        Where the images are; `load` finds that.

    Notes
    -----
    Safe from many threads, which may do the same work twice.
    """

    def __init__(self, records: RecordSet, block: int | None) -> None:
        self.records = records
        self.block = block
        key = PlaceColumns, records.ordinal, int(records.record_type), block
        self.columns: PlaceColumns = records.content.kept.setdefault(
            key, PlaceColumns(len(records))
        )

    def load(self, indices: IntArray) -> None:
        """Find the images of records.

        Raises
        ------
        FormatError
            A header is not what the index says, or the file ends before it does.
        """
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
        """Group records by all that tells what their images are, and take one of each apart."""
        form_of = np.full(len(self.records), IRREGULAR, np.int32)
        found = self._find_keys(decoder, index, some)
        if found is not None and len(found[0]):
            self._group(decoder, index, found, form_of)
        # Only now: another thread may look at it.
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
        """Return records, where their images begin, and numbers that agree if their images do.

        Records of which that cannot be told are left out; None if those are all.
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
                    # The last entry of the index tells where the block ends.
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
            # A time that is no number is neither before nor after a configuration record.
            is_no_time = np.isnan(records.content.table.timestamp[rows])
            keys += [np.searchsorted(kinds, rows), is_no_time.astype(np.int64)]
        return some, starts, keys

    def _read(
        self, columns: list[IntArray], at: int, nbytes: int, dtype: np.dtype[Any]
    ) -> list[IntArray]:
        """Return columns of the numbers at position `at` of the blocks that `columns` tells."""
        records = self.records
        places = records.headers.offsets[columns[0]] + columns[1] + at
        rows = read_rows(records.content.source, places, nbytes).view(dtype)
        return list(rows.astype(np.int64).T)

    def _form(self, decoder: StreamDecoder, index: int, number: int) -> int:
        """Return the form of a record's image, `IRREGULAR` if it is to be taken apart alone."""
        try:
            block = image_block(self.records.record(number), decoder.contents, index)
            pixels = block.array()
        except BloscpackError:
            return IRREGULAR  # whoever wants this image gets the error
        form = ImageForm(pixels.shape, pixels.strides, pixels.dtype, len(block.data))
        forms = self.columns.forms
        if form not in forms:
            forms.append(form)
        return forms.index(form)


def _image_bytes(layout: DataLayout) -> IntArray:
    """Return the bytes in a block that the values have which say what an image is."""
    found: list[int] = []
    at = 0
    for _, piece in layout.fixed:
        if piece.label in RAW_IMAGE_LABELS and piece.nbytes <= _MAX_SPAN_NBYTES:
            found.extend(range(at, at + piece.nbytes))
        at += piece.nbytes
    return np.array(found, np.int64)
