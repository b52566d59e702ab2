"""Clips of frames over the images of a recording; see `frames.protocol`.

A clip is one stream: its frames are the images of the data records, in time order. Uncompressed raw
images are read straight into the result, or copied row by row if the rows have padding. Compressed
records are decoded into the result on several threads; coded images (JPEG, PNG) are decoded one by
one. A clip is lazy: it locates only the images that are read, and caches the places with the
recording.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..plugin import (
    AnyArray,
    ByteSource,
    ErrorsAt,
    FormatError,
    FrameSelection,
    IntArray,
    NotFoundError,
    Piece,
    Scratch,
    ShownClip,
    at_hand,
    check_memory,
    fetch,
    frame_indices,
    image,
    read_clip,
    read_only_meta,
)
from .block.pixels import (
    PACKED_FORMATS,
    PLANAR_FORMATS,
    ImageFormat,
    ImageSpec,
    PixelFormat,
    unpack_ten_bits,
)
from .column.imageplace import (
    IRREGULAR,
    ImageForm,
    ImagePlaces,
    image_block,
    image_index,
    is_picture,
)
from .format.compression import decode_payload, decode_payload_into
from .format.description import FLAVOR_TAG, NAME_TAG, SERIAL_NUMBER_TAG
from .format.format import RECORD_TYPE_NAMES, Compression, RecordType
from .format.recordformat import ContentType
from .format.typenames import type_name
from .read.content import Content
from .read.record import Block, Record
from .read.recordset import RecordSet, tagged_versions

# Cost of a decoded byte relative to Blosc, for raw images without and with Zstandard, and for coded
# images; scales the number of threads.
_RAW_COST, _ZSTD_COST, _CODED_COST = 1.0, 4.0, 8.0
# Frames smaller than this many bytes are read together and copied; larger ones are each read
# straight into the result.
_STRAIGHT_NBYTES = 1 << 16
# Payloads of up to this many bytes are decoded into reused memory.
_SCRATCH_NBYTES = 1 << 24
# Largest expansion of a stored byte: a Zstandard block of 4 bytes decodes to 128 KiB.
_MAX_EXPANSION = 1 << 15
_VERBATIM = ImageFormat.JPG, ImageFormat.PNG
# Formats of raw images whose arrays are what others take them for: gray, RGB or RGBA.
_PLAIN_FORMATS = {
    *(PixelFormat.GREY8, PixelFormat.GREY16, PixelFormat.RGB8, PixelFormat.RGBA8),
    *(PixelFormat.RGB32F, PixelFormat.RGBA32F, PixelFormat.DEPTH32F, PixelFormat.SCALAR64F),
}


class StreamClip(ShownClip):
    """Images of a stream; see `frames.protocol.Clip`.

    Parameters
    ----------
    content : Content
        Content of the recording.
    ordinal : int
        Ordinal of the stream.
    block : int, optional
        Index of the image block in the record format; by default, the first image block.

    Attributes
    ----------
    id : str
        Id of the stream, such as ``"1201-1"``.
    decode_cost : float
        Cost of a decoded byte relative to Blosc; scales the number of threads. Of raw images, by
        the compression of the frames that were read last.

    Raises
    ------
    NotFoundError
        The stream has no images, or none in this block.
    """

    is_raw = True
    # For files of pictures: shape and dtype of the frames whose pixels were changed.
    _pictures: dict[int, tuple[tuple[int, ...], np.dtype[Any]]] | None = None
    is_upright = False  # images are not turned by their EXIF data, as by the reference

    def __init__(self, content: Content, ordinal: int, block: int | None = None) -> None:
        self.id = str(content.table.streams[ordinal])
        self._content = content
        self._ordinal = ordinal
        self._block = block
        self._dtype: np.dtype[Any] | None = None
        # The image whose record was last decoded for its shape; saves decoding it twice.
        self._peeked: tuple[int, Block] | None = None
        records = RecordSet(content, ordinal, RecordType.DATA)
        self._records = records
        versions = tagged_versions(records)
        with_images = [version for version in versions if self._index(version) is not None]
        if not with_images:
            where = "" if block is None else f" in block {block}"
            raise NotFoundError(f"stream {self.id} has no images{where}").at(
                path=content.source.name
            )
        self._members: IntArray = np.arange(len(records))
        if len(with_images) < len(versions):
            records.load()
            self._members = np.flatnonzero(np.isin(records.headers.versions, with_images))
        self._places = ImagePlaces(records, block)
        self._formats = {self._format(version) for version in with_images}
        is_raw = self._formats == {ImageFormat.RAW}
        self.decode_cost = _RAW_COST if is_raw else _CODED_COST

    def _index(self, version: int) -> int | None:
        """Return the index of the image block in the record format, or None."""
        return image_index(self._records.decoder(version).contents, self._block)

    def _format(self, version: int) -> ImageFormat:
        index = self._index(version)
        contents = self._records.decoder(version).contents
        return ImageFormat.UNDEFINED if index is None else contents[index].image.image_format

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamClip, (self._content, self._ordinal, self._block)

    def __repr__(self) -> str:
        return f"<{len(self)} images of stream {self.id} of {self._content.source.name!r}>"

    @property
    def meta(self) -> dict[str, Any]:
        """Name, flavor, and tags of the stream."""
        tags = self._content.tags_of(self._ordinal)
        name = tags.vrs.get(NAME_TAG) or type_name(self._content.table.streams[self._ordinal][0])
        flavor = tags.vrs.get(FLAVOR_TAG, "")
        return read_only_meta({"name": name, "flavor": flavor, "tags": dict(tags.user)})

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents of the stream beside the frames and `meta`, as short texts."""
        stream = f"stream {self.id}"
        counts = {
            f"{RECORD_TYPE_NAMES[kind]} records": len(self._content.rows_of(self._ordinal, kind))
            for kind in (RecordType.CONFIGURATION, RecordType.STATE)
        }
        counts["data records without images"] = len(self._records) - len(self)
        tags = self._content.tags_of(self._ordinal).vrs
        return (
            *["times of the frames of " + stream] * bool(len(self)),
            *(f"{count} {what} of {stream}" for what, count in counts.items() if count),
            *self._other_blocks(),
            *self._lost_pixels(),
            *[f"serial number of {stream}"] * bool(tags.get(SERIAL_NUMBER_TAG)),
        )

    def _other_blocks(self) -> Iterator[str]:
        """Yield a text for each block of the records with frames, except those of the frames."""
        for version in tagged_versions(self._records):
            image = self._index(version)
            contents = self._records.decoder(version).contents
            for index, block in enumerate(contents if image is not None else ()):
                if index != image and block.content_type != ContentType.EMPTY:
                    yield f"block {index} of stream {self.id}, version {version}: {block}"

    def _lost_pixels(self) -> Iterator[str]:
        """Yield texts for what arrays do not say of raw images, by the first one."""
        spec = None
        if len(self):
            spec = self._image_of(self._records.record(int(self._members[0]))).spec
        if isinstance(spec, ImageSpec) and spec.image_format == ImageFormat.RAW:
            is_told = self._pictures is not None and spec.pixel_format == PixelFormat.BGR8
            if spec.pixel_format not in _PLAIN_FORMATS and not is_told:
                yield f"pixel format {spec.pixel_format} of stream {self.id}"
            if spec.pixel_format in PLANAR_FORMATS:
                yield f"planes of colours of stream {self.id}"

    @property
    def rows(self) -> IntArray:
        """The `record_index` of each frame, int64 (T,)."""
        return self._records.rows[self._members]

    @property
    def timestamps(self) -> NDArray[np.float64]:
        """Time of each frame in seconds, float64 (T,)."""
        return self._content.table.timestamp[self.rows]

    @property
    def shape(self) -> tuple[int, ...]:
        """``(T, H, W)`` or ``(T, H, W, C)``, by the first frame; ``(0,)`` without frames."""
        return len(self), *(self._form(0)[0] if len(self) else ())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the pixels of the first frame."""
        if self._dtype is None:
            self._dtype = self._form(0)[1] if len(self) else np.dtype("u1")
        return self._dtype

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._members)

    def read(self, selection: FrameSelection = None, *, out: AnyArray | None = None) -> AnyArray:
        """Return frames in one array, with the dtype of the first; see `frames.protocol.Clip`."""
        with at_hand(self.places(selection)):
            clip = self.typed(selection)
            return read_clip(clip, selection, out=out, nthreads=self._content.nthreads)

    def places(self, selection: FrameSelection) -> Iterator[tuple[ByteSource, int, int]]:
        """Yield (source, offset, size) of each frame's record, if the recording is one remote file.

        Offset and size come from the record table, so they cover the record header.
        """
        source = self._content.source
        if source.has_latency:
            table = self._content.table
            for row in self.rows[frame_indices(selection, len(self)).indices].tolist():
                yield source, table.offset.item(row), table.size.item(row)

    def typed(self, selection: FrameSelection) -> "StreamClip":
        """Return the clip with the dtype of the first frame of a selection."""
        indices = frame_indices(selection, len(self)).indices
        if not len(indices):
            return self
        self._places.load(self._members[indices])
        # A copy: another thread may read a selection of another dtype from this clip.
        clip = self._copy()
        clip._dtype = clip._form(int(indices[0]))[1]
        return clip

    def _copy(self) -> "StreamClip":
        clip = object.__new__(StreamClip)
        clip.__dict__.update(self.__dict__)
        return clip

    def as_pictures(self) -> "StreamClip":
        """Return the clip for files of pictures: red comes first, and ten bits are unpacked."""
        clip = self._copy()
        clip._pictures, clip._dtype, clip._peeked = {}, None, None
        return clip

    def read_images(self, selection: FrameSelection = None) -> list[bytes] | None:
        """Return the frames as stored JPEG or PNG files; None if the stream has other images."""
        indices = frame_indices(selection, len(self)).indices
        if not self._formats.issubset(_VERBATIM):
            return None
        images: list[bytes] = [b""] * len(indices)

        def keep(k: int, block: Block) -> None:
            images[k] = bytes(block.data)

        numbers = self._members[indices]
        self._records.load(numbers)
        pieces = [self._record_piece(k, number, keep) for k, number in enumerate(numbers.tolist())]
        fetch(pieces, nthreads=1, nbytes=0)
        return images

    def _form(self, index: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        number = int(self._members[index])
        self._places.load(self._members[index : index + 1])
        form = self._regular(number)
        if form is not None:
            return form.shape, form.dtype
        known = self._places.columns.irregular if self._pictures is None else self._pictures
        if number not in known:
            with ErrorsAt(self._records.where, number):
                block = self._image_of(self._records.record(number))
                known[number] = self._decoded_form(block)
            self._peeked = number, block
        return known[number]

    def _decoded_form(self, block: Block) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return the shape and dtype of the pixels, from the image header if possible."""
        info = _header_of(block)
        if info is None:
            pixels = self._pixels(block)
            return pixels.shape, pixels.dtype
        # imagecodec.py expands grey with alpha to RGBA, and one bit per pixel to a byte.
        shape = (*info.shape[:2], 4) if info.shape[2:] == (2,) else info.shape
        return shape, np.dtype("u1") if info.dtype.kind == "b" else info.dtype

    def _pixels(self, block: Block) -> AnyArray:
        if self._pictures is None or is_picture(block):
            return block.array()
        spec = block.spec
        if isinstance(spec, ImageSpec) and spec.pixel_format in PACKED_FORMATS:
            return unpack_ten_bits(block.data, spec)
        return block.array()[..., ::-1]

    def _regular(self, number: int) -> ImageForm | None:
        place = int(self._places.columns.form_of[number])
        if place == IRREGULAR:
            return None
        form = self._places.columns.forms[place]
        return form if self._pictures is None or form.is_picture else None

    def _image_of(self, record: Record) -> Block:
        index = self._index(record.format_version)
        if index is None:
            raise FormatError(f"records of version {record.format_version} have no image")
        contents = self._records.decoder(record.format_version).contents
        return image_block(record, contents, index)

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return the shape of the first of `indices`, or of the clip's first frame if empty."""
        if not len(indices):
            return self.shape[1:]
        shape = self._form(int(indices[0]))[0]
        nbytes = math.prod(shape) * self.dtype.itemsize
        check_memory(f"stream {self.id}", indices, nbytes, self._content.source, _MAX_EXPANSION)
        return shape

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterator[Piece]:
        """Yield the reads that fill each ``frames[k]`` with the frame ``indices[k]``."""
        numbers = self._members[indices]
        self._records.load(numbers)
        self._places.load(numbers)
        if self.decode_cost != _CODED_COST and len(numbers):
            compression = self._records.headers.compressions.item(numbers.item(0))
            self.decode_cost = _ZSTD_COST if compression == Compression.ZSTD else _RAW_COST

        def put(k: int, block: Block) -> None:
            self._put(block, frames[k, ...], indices, k)

        peeked, self._peeked = self._peeked, None  # it keeps a whole payload in memory
        for k, number in enumerate(numbers.tolist()):
            form = self._regular(number)
            if form is None:
                if peeked is not None and peeked[0] == number:
                    with ErrorsAt(self._records.where, number):
                        put(k, peeked[1])
                else:
                    yield self._record_piece(k, number, put)
                continue
            if (form.shape, form.dtype) != (frames.shape[1:], frames.dtype):
                raise self._differs(indices, k, form.shape, form.dtype, frames)
            yield self._raw_piece(number, form, frames[k, ...])

    def _raw_piece(self, number: int, form: ImageForm, frame: AnyArray) -> Piece:
        """Return the read of a raw image whose place is known."""
        headers = self._records.headers
        start, offset = self._places.columns.starts.item(number), headers.offsets.item(number)
        if headers.compressions.item(number):
            nbytes = headers.stored.item(number)
            source, offset = self._content.source.locate(offset, nbytes)
            return Piece(
                source, offset, nbytes, partial(self._decode_raw, number, start, form, frame)
            )
        source, offset = self._content.source.locate(offset + start, form.extent)
        if not form.is_tight:
            return Piece(source, offset, form.extent, partial(_copy_rows, form, frame))
        target = _bytes_of(frame)
        if form.extent < _STRAIGHT_NBYTES:
            return Piece(source, offset, form.extent, partial(_copy, target))
        return Piece(source, offset, form.extent, _leave, target)

    def _decode_raw(
        self, number: int, start: int, form: ImageForm, frame: AnyArray, stored: memoryview
    ) -> None:
        """Decode the payload of a record and write its image to `frame`."""
        headers = self._records.headers
        if start or headers.nbytes.item(number) != form.extent or not form.is_tight:
            self._with_payload(
                number, stored, lambda payload: _copy_rows(form, frame, payload[start:])
            )
            return
        with ErrorsAt(self._records.where, number):
            decode_payload_into(stored, headers.compressions.item(number), _bytes_of(frame))

    def _record_piece(self, k: int, number: int, take: Callable[[int, Block], None]) -> Piece:
        """Return the read of a whole record, which calls ``take(k, block)`` with its image."""
        headers = self._records.headers
        nbytes = headers.stored.item(number)
        source, offset = self._content.source.locate(headers.offsets.item(number), nbytes)
        return Piece(source, offset, nbytes, partial(self._take_apart, k, number, take))

    def _take_apart(
        self, k: int, number: int, take: Callable[[int, Block], None], stored: memoryview
    ) -> None:
        """Call ``take(k, block)`` with the image of the record whose stored payload is `stored`."""
        records = self._records
        row, version = int(records.rows[number]), records.headers.versions.item(number)
        timestamp = self._content.table.timestamp.item(row)

        def give(payload: memoryview) -> None:
            record = Record(records.decoder(version), timestamp, row, payload)
            take(k, self._image_of(record))

        self._with_payload(number, stored, give)

    def _with_payload(
        self, number: int, stored: memoryview, use: Callable[[memoryview], None]
    ) -> None:
        """Call ``use(payload)`` with a decoded payload, which is valid only during the call."""
        headers = self._records.headers
        compression, nbytes = headers.compressions.item(number), headers.nbytes.item(number)
        with ErrorsAt(self._records.where, number):
            if compression and nbytes <= _SCRATCH_NBYTES:
                with Scratch(nbytes) as room:
                    decode_payload_into(stored, compression, room)
                    use(room)
            else:
                use(memoryview(decode_payload(stored, compression, nbytes)))

    def _put(self, block: Block, frame: AnyArray, indices: IntArray, k: int) -> None:
        info = _header_of(block)
        # Other images go through `Block.array`, which expands some of them and refuses others.
        is_plain = info is not None and info.kind == "jpeg" and info.shape[2:] in ((), (3,))
        if info and is_plain and (info.shape, info.dtype) == (frame.shape, frame.dtype):
            image.decode_into(block.data, frame, fast=False)
            return
        pixels = self._pixels(block)
        if (pixels.shape, pixels.dtype) != (frame.shape, frame.dtype):
            raise self._differs(indices, k, pixels.shape, pixels.dtype, frame[None])
        frame[...] = pixels

    def _differs(
        self,
        indices: IntArray,
        k: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        frames: AnyArray,
    ) -> ValueError:
        return ValueError(
            f"clip {self.id}, frame {indices[k]} is {dtype} {shape}, not {frames.dtype} "
            f"{frames.shape[1:]} as frame {indices[0]}: read frames that differ one by one"
        )


def _bytes_of(frame: AnyArray) -> memoryview:
    return frame.reshape(-1).view(np.uint8).data


def _leave(data: memoryview) -> None:
    """Do nothing: the bytes were read straight into the result."""


def _copy(target: memoryview, data: memoryview) -> None:
    target[:] = data


def _copy_rows(form: ImageForm, frame: AnyArray, data: memoryview) -> None:
    frame[...] = form.view(data)


def _header_of(block: Block) -> image.ImageInfo | None:
    """Return what the header of a JPEG or PNG image says; None for other images."""
    spec = block.spec
    if not isinstance(spec, ImageSpec) or spec.image_format not in _VERBATIM:
        return None
    return image.probe(block.data)
