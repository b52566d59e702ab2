"""Records and their blocks.

A `Record` is a payload with a decoder. Creating one decodes nothing: content is decoded on access
and cached. `Record.blocks` lists the blocks of the payload. An unsupported block or unread bytes
are not an error; `Record.note` reports them. A block that is cut off is in the list, and raises
when its content is accessed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any, Literal, Protocol

import numpy as np

from ...plugin import AnyArray, BloscpackError, BytesLike, UnsupportedError
from ..block.audio import AudioSpec, audio_view
from ..block.imagecodec import convert_image, decode_video
from ..block.pixels import ImageConversion, ImageFormat, ImageSpec, image_view
from ..layout.conventions import BlockFields
from ..layout.datalayout import DataLayout

BlockKind = Literal["metadata", "image", "audio", "custom", "unsupported"]


@dataclass(frozen=True, slots=True)
class CustomSpec:
    """Properties of a custom block.

    Attributes
    ----------
    custom_format : str
        Name of the format; may be empty.
    buffer_size : int
        Bytes of the block.
    """

    custom_format: str = ""
    buffer_size: int = 0


BlockSpec = ImageSpec | AudioSpec | CustomSpec | DataLayout


class Block:
    """Block of a record: a part of its payload.

    Attributes
    ----------
    kind : {"metadata", "image", "audio", "custom", "unsupported"}
        Kind of content.
    nbytes : int or None
        Bytes of the block in the payload; None if unknown.
    """

    __slots__ = ("_data", "_fault", "_frames", "_spec", "kind", "nbytes")

    def __init__(
        self,
        kind: BlockKind,
        nbytes: int | None,
        data: memoryview | BloscpackError,
        spec: BlockSpec,
        frames: "Callable[[], list[Block]] | None" = None,
    ) -> None:
        self.kind: BlockKind = kind
        self.nbytes = nbytes
        self._data = data
        self._spec = spec
        self._frames = frames

    def __repr__(self) -> str:
        return f"<{self.kind} block of {self.nbytes} bytes>"

    @property
    def data(self) -> memoryview:
        """Bytes of the block as stored, a view of the payload.

        Raises
        ------
        TruncatedError
            The payload ends within the block.
        UnsupportedError
            The block is unsupported and its size is unknown.
        """
        if isinstance(self._data, BloscpackError):
            raise type(self._data)(str(self._data))
        return self._data

    @property
    def is_whole(self) -> bool:
        """Whether the payload has all bytes of the block."""
        return not isinstance(self._data, BloscpackError)

    @property
    def spec(self) -> BlockSpec:
        """Properties of the block; for metadata, its layout."""
        spec = self._spec
        if isinstance(spec, DataLayout) or spec.buffer_size or not self.nbytes:
            return spec
        self._spec = replace(spec, buffer_size=self.nbytes)
        return self._spec

    def values(self) -> dict[str, Any]:
        """Return the values of a metadata block by label, with the types of the reference's reader.

        Raises
        ------
        TypeError
            The block is not metadata.
        FormatError
            The bytes do not fit the layout.
        """
        if not isinstance(self._spec, DataLayout):
            raise TypeError(f"a block of kind {self.kind!r} has no values")
        return self._spec.decode(self.data)[0]

    def array(self, conversion: ImageConversion = ImageConversion.DECOMPRESS) -> AnyArray:
        """Return images, audio and custom blocks as an array.

        Parameters
        ----------
        conversion : ImageConversion
            For images. Raw images are views of the payload unless they are normalised.

        Returns
        -------
        ndarray
            Raw images: see `image_view`; coded images: the decoded pixels. Audio:
            ``(samples, channels)``, see `audio_view`. Custom: uint8, one-dimensional.

        Raises
        ------
        TypeError
            The block is metadata: see `values`.
        FormatError, CodecError
            The bytes are damaged.
        UnsupportedError
            The codec or the block is not supported.
        ImportError
            The package that decodes the image is missing.
        """
        return self.converted(conversion)[0]

    def converted(self, conversion: ImageConversion) -> tuple[AnyArray, BlockSpec]:
        """Return `array` and the spec of its result, which differs for converted images."""
        spec, data = self.spec, self.data
        if self.kind == "unsupported":
            raise UnsupportedError("an unsupported block: its format is incomplete")
        if isinstance(spec, DataLayout):
            raise TypeError("a metadata block has values, not an array")
        if isinstance(spec, AudioSpec):
            return audio_view(data, spec), spec
        if isinstance(spec, CustomSpec) or conversion is ImageConversion.RAW_BUFFER:
            return np.frombuffer(data, np.uint8), spec
        if conversion in (ImageConversion.OFF, ImageConversion.RECORD_UNREAD_BYTES_BACKDOOR):
            return image_view(data, spec), spec
        if spec.image_format == ImageFormat.VIDEO:
            frames = [block.data for block in self._frames()] if self._frames else [data]
            return decode_video(frames, spec, conversion)
        return convert_image(data, spec, conversion)


class RecordSource(Protocol):
    """Part of a recording that its records use; `index` is a `record_index`."""

    def __getitem__(self, index: int, /) -> "Record":
        """Return a record."""

    def read_payload(self, index: int, /) -> BytesLike:
        """Return the decompressed payload of a record."""

    def configuration_before(self, index: int, /) -> "Record | None":
        """Return the last configuration record before `index` in the same stream, or None."""

    def data_before(self, index: int, /) -> "Record | None":
        """Return the last data record before `index` in the same stream, or None."""


Decoded = tuple[tuple[Block, ...], str | None, int]
"""Blocks of a record, its note, and the number of payload bytes in the blocks."""


class RecordDecoder(Protocol):
    """Decoder of the records of one stream, type and version; see decoding.py."""

    @property
    def stream_id(self) -> str:
        """Id of the stream."""

    @property
    def record_type(self) -> str:
        """Record type, in lower case."""

    @property
    def format_version(self) -> int:
        """Format version of the records."""

    @property
    def source(self) -> RecordSource:
        """The recording."""

    def metadata(self, record: "Record", /) -> tuple[dict[str, Any], ...]:
        """Return the values of the metadata blocks."""

    def decode(self, record: "Record", /) -> Decoded:
        """Return the blocks."""

    def fields(self, record: "Record", /) -> list[BlockFields]:
        """Return the conventional values of the metadata blocks, the last block first."""


class Record:
    """Record of a recording, which creates it.

    Content is read and decoded on access, and cached. Reading requires an open recording; cached
    content stays usable. Safe from many threads.

    Attributes
    ----------
    timestamp : float
        In seconds, in the time domain of the file.
    record_index : int
        Position among all records of the file, in time order.
    """

    __slots__ = ("_decoded", "_decoder", "_metadata", "_payload", "record_index", "timestamp")

    def __init__(
        self,
        decoder: RecordDecoder,
        timestamp: float,
        record_index: int,
        payload: BytesLike | None = None,
    ) -> None:
        """Create a record.

        Parameters
        ----------
        decoder : RecordDecoder
            Decoder for the stream, type and version of the record.
        timestamp, record_index
            As the attributes.
        payload : bytes-like, optional
            Decoded payload; by default, it is read on access.
        """
        self._decoder = decoder
        self.timestamp = timestamp
        self.record_index = record_index
        self._payload = payload
        self._metadata: tuple[dict[str, Any], ...] | None = None
        self._decoded: Decoded | None = None

    def __repr__(self) -> str:
        decoder = self._decoder
        return (
            f"<{decoder.record_type} record {self.record_index} of stream {decoder.stream_id}"
            f" at {self.timestamp!r} s>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return getitem, (self._decoder.source, self.record_index)

    @property
    def stream_id(self) -> str:
        """Id of the stream, such as ``"1201-1"``."""
        return self._decoder.stream_id

    @property
    def record_type(self) -> str:
        """``"data"``, ``"configuration"`` or ``"state"``."""
        return self._decoder.record_type

    @property
    def format_version(self) -> int:
        """Version of the record format, for the stream and type of the record."""
        return self._decoder.format_version

    @property
    def payload(self) -> BytesLike:
        """Decompressed payload, all bytes of the record."""
        if self._payload is None:
            self._payload = self._decoder.source.read_payload(self.record_index)
        return self._payload

    def _decode(self) -> Decoded:
        if self._decoded is None:
            self._decoded = self._decoder.decode(self)
        return self._decoded

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks of the payload in order, as far as they can be located.

        Raises
        ------
        FormatError
            The record format or a layout of the stream is damaged.
        """
        return self._decode()[0]

    @property
    def note(self) -> str | None:
        """Why decoding stopped, or how many bytes are unread; None if all bytes are decoded."""
        return self._decode()[1]

    @property
    def unread(self) -> memoryview:
        """Bytes after the last block that could be located."""
        return memoryview(self.payload)[self._decode()[2] :]

    @property
    def metadata_blocks(self) -> tuple[dict[str, Any], ...]:
        """Values of the metadata blocks, by label.

        Raises
        ------
        FormatError
            The payload does not fit the layouts.
        """
        if self._metadata is None:
            self._metadata = self._decoder.metadata(self)
        return self._metadata

    def _of_kind(self, kind: BlockKind) -> list[Block]:
        return [block for block in self._decode()[0] if block.kind == kind]

    @property
    def image_blocks(self) -> tuple[AnyArray, ...]:
        """Images: raw ones as pixels, coded ones as bytes, which `Block.array` decodes."""
        return tuple(
            image_view(block.data, spec)
            for block in self._decode()[0]
            if block.kind == "image" and isinstance(spec := block.spec, ImageSpec)
        )

    @property
    def image_specs(self) -> tuple[ImageSpec, ...]:
        """Properties of the images."""
        specs = (block.spec for block in self._of_kind("image"))
        return tuple(spec for spec in specs if isinstance(spec, ImageSpec))

    @property
    def audio_blocks(self) -> tuple[AnyArray, ...]:
        """Samples of the audio blocks, ``(samples, channels)``.

        Raises
        ------
        UnsupportedError
            An audio block is not PCM.
        """
        return tuple(block.array() for block in self._of_kind("audio"))

    @property
    def audio_specs(self) -> tuple[AudioSpec, ...]:
        """Properties of the audio blocks."""
        specs = (block.spec for block in self._of_kind("audio"))
        return tuple(spec for spec in specs if isinstance(spec, AudioSpec))

    @property
    def custom_blocks(self) -> tuple[AnyArray, ...]:
        """Bytes of the custom blocks, uint8."""
        return tuple(block.array() for block in self._of_kind("custom"))

    @property
    def custom_block_specs(self) -> tuple[CustomSpec, ...]:
        """Properties of the custom blocks."""
        specs = (block.spec for block in self._of_kind("custom"))
        return tuple(spec for spec in specs if isinstance(spec, CustomSpec))
