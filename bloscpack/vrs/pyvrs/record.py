"""Records with the names and values of pyvrs.

Blocks are decoded on access, and images are cached. Images are converted as was set in the reader
when the record was read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

import numpy as np

from ...plugin import AnyArray, FormatError
from ..block.audio import AudioSpec as StoredAudioSpec
from ..block.pixels import ImageConversion, ImageFormat, PixelFormat
from ..block.pixels import ImageSpec as StoredImageSpec
from ..read.record import Block, Record
from .spec import AudioSpec, ContentBlock, ImageSpec

__all__ = ["VRSBlocks", "VRSRecord"]

T = TypeVar("T")

SAFE_ENCODING = "utf-8-safe"
"""Default encoding of text: UTF-8, with surrogate escapes for other bytes."""


class VRSBlocks(Sequence[T], Generic[T]):
    """Blocks of one kind of a record, decoded when indexed."""

    def __init__(self, get: Callable[[int], T], indices: range) -> None:
        self._get = get
        self._indices = indices

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> "VRSBlocks[T]": ...

    def __getitem__(self, index: int | slice) -> "T | VRSBlocks[T]":
        if isinstance(index, slice):
            return VRSBlocks(self._get, self._indices[index])
        return self._get(self._indices[index])

    def __len__(self) -> int:
        return len(self._indices)

    def __repr__(self) -> str:
        return f"<{len(self)} blocks>"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading records."""

    conversion: ImageConversion = ImageConversion.OFF
    nblocks: int | None = None  # number of blocks to read, from the first on; None for all
    encoding: str = SAFE_ENCODING  # encoding of text

    @property
    def reads_all_metadata(self) -> bool:
        """Whether the metadata of the record can be returned unchanged."""
        return (
            self.nblocks is None
            and self.encoding == SAFE_ENCODING
            and self.conversion != ImageConversion.RECORD_UNREAD_BYTES_BACKDOOR
        )


class VRSRecord:
    """Record of a recording, as pyvrs shows it.

    Attributes
    ----------
    stream_id : str
        Such as ``"1201-1"``.
    record_index : int
        Index among all records of the reader, including those that a filter leaves out.

    Notes
    -----
    Pickles as a position in a file. Metadata values are Python numbers, tuples for points, tuples
    of tuples for matrices, lists, dicts, str, and bytes of length 1 for a char.
    """

    __slots__ = ("_images", "_options", "_record", "record_index", "stream_id")

    def __init__(
        self,
        record: Record,
        options: ReadOptions,
        stream_id: str | None = None,
        record_index: int | None = None,
    ) -> None:
        self._record = record
        self._options = options
        self._images: dict[int, tuple[AnyArray, StoredImageSpec]] = {}
        self.stream_id = record.stream_id if stream_id is None else stream_id
        self.record_index = record.record_index if record_index is None else record_index

    def __reduce__(self) -> tuple[Any, ...]:
        return VRSRecord, (self._record, self._options, self.stream_id, self.record_index)

    def __repr__(self) -> str:
        return (
            f"VRSRecord(index={self.record_index}, id={self.stream_id}, "
            f"type={self.record_type}, timestamp={_number(self.timestamp)})"
        )

    def __str__(self) -> str:
        return (
            f"{self.record_type.upper()} record for {self.stream_id} @ "
            f"{_number(self.timestamp)}s [{self.record_index}]\n"
            f"{self.n_audio_blocks} audio blocks, {self.n_custom_blocks} custom blocks, "
            f"{self.n_image_blocks} image blocks, {self.n_metadata_blocks} metadata blocks"
        )

    def __getitem__(self, key: str) -> Any:
        if key not in _ITEMS:
            raise KeyError(f"key {key!r} does not exist.")
        return getattr(self, _ITEMS[key])

    @property
    def record(self) -> Record:
        """The record as `bloscpack.vrs` shows it."""
        return self._record

    @property
    def record_type(self) -> str:
        """``"data"``, ``"configuration"`` or ``"state"``."""
        return self._record.record_type

    @property
    def timestamp(self) -> float:
        """Time in seconds, in the time domain of the file."""
        return self._record.timestamp

    @property
    def format_version(self) -> int:
        """Version of the record format, for the stream and type of the record."""
        return self._record.format_version

    @property
    def n_metadata_blocks(self) -> int:
        """Number of metadata blocks."""
        return len(self._of_kind("metadata"))

    @property
    def n_image_blocks(self) -> int:
        """Number of image blocks."""
        return len(self._of_kind("image"))

    @property
    def n_audio_blocks(self) -> int:
        """Number of audio blocks."""
        return len(self._of_kind("audio"))

    @property
    def n_custom_blocks(self) -> int:
        """Number of custom blocks."""
        return len(self._of_kind("custom"))

    @property
    def n_blocks_in_total(self) -> int:
        """Number of all blocks except unsupported ones."""
        return sum(block.kind != "unsupported" for block in self._blocks())

    @property
    def metadata_blocks(self) -> VRSBlocks[dict[str, Any]]:
        """Values of the metadata blocks by label; see the class for their types.

        If a label has several types, the key is ``label<type>``.
        """
        if self._options.reads_all_metadata:
            values = self._record.metadata_blocks
            return VRSBlocks(values.__getitem__, range(len(values)))
        return VRSBlocks(self._metadata, range(self.n_metadata_blocks))

    @property
    def image_blocks(self) -> VRSBlocks[AnyArray]:
        """Images as arrays.

        Raw images are views of the payload, (h, w) or (h, w, channels). Other images are uint8,
        one-dimensional, unless the reader converts images.
        """
        return VRSBlocks(lambda index: self._image(index)[0], range(self.n_image_blocks))

    @property
    def image_specs(self) -> VRSBlocks[ImageSpec]:
        """Properties of the images, after their conversion."""
        return VRSBlocks(self._image_spec, range(self.n_image_blocks))

    @property
    def audio_blocks(self) -> VRSBlocks[AnyArray]:
        """Samples, (samples, channels); 24 bits are widened, big-endian samples are swapped."""
        blocks = self._of_kind("audio")
        return VRSBlocks(lambda index: blocks[index].array(), range(len(blocks)))

    @property
    def audio_specs(self) -> VRSBlocks[AudioSpec]:
        """Properties of the audio blocks."""
        return VRSBlocks(self._audio_spec, range(self.n_audio_blocks))

    @property
    def custom_blocks(self) -> VRSBlocks[AnyArray]:
        """Bytes of the custom blocks, uint8, one-dimensional."""
        blocks = self._of_kind("custom")
        return VRSBlocks(lambda index: blocks[index].array(), range(len(blocks)))

    @property
    def custom_block_specs(self) -> VRSBlocks[ContentBlock]:
        """Properties of the custom blocks."""
        blocks = self._of_kind("custom")
        return VRSBlocks(
            lambda index: ContentBlock(buffer_size=blocks[index].nbytes or 0), range(len(blocks))
        )

    def load(self) -> "VRSRecord":
        """Read the payload and decode the images now; other blocks stay lazy."""
        for index in range(self.n_image_blocks):
            self._image(index)
        return self

    def _blocks(self) -> tuple[Block, ...]:
        blocks = self._record.blocks[: self._options.nblocks]
        if self._options.conversion != ImageConversion.RECORD_UNREAD_BYTES_BACKDOOR:
            return blocks
        # The first image consists of all remaining bytes of the record.
        first = next((i for i, block in enumerate(blocks) if block.kind == "image"), len(blocks))
        return blocks[: first + 1]

    def _of_kind(self, kind: str) -> list[Block]:
        return [block for block in self._blocks() if block.kind == kind]

    def _metadata(self, index: int) -> dict[str, Any]:
        values = self._of_kind("metadata")[index].values()
        found: dict[str, Any] = recode(values, self._options.encoding)
        return found

    def _image(self, index: int) -> tuple[AnyArray, StoredImageSpec]:
        found = self._images.get(index)
        if found is None:
            block = self._of_kind("image")[index]
            if self._options.conversion == ImageConversion.RECORD_UNREAD_BYTES_BACKDOOR:
                found = self._rest_from(block)
            else:
                array, spec = block.converted(self._options.conversion)
                if not isinstance(spec, StoredImageSpec):
                    raise TypeError(f"an image block with {spec!r}")
                found = array, spec
            self._images[index] = found
        return found

    def _rest_from(self, image: Block) -> tuple[AnyArray, StoredImageSpec]:
        start = 0
        for block in self._blocks():
            if block is image:
                break
            start += block.nbytes or 0
        rest = np.frombuffer(self._record.payload, np.uint8)[start:]
        spec = StoredImageSpec(
            width=len(rest),
            height=1,
            pixel_format=PixelFormat.GREY8,
            image_format=ImageFormat.RAW,
            buffer_size=len(rest),
        )
        return rest, spec

    def _image_spec(self, index: int) -> ImageSpec:
        conversion = self._options.conversion
        if conversion in (ImageConversion.OFF, ImageConversion.RAW_BUFFER):
            spec = self._of_kind("image")[index].spec
            if isinstance(spec, StoredImageSpec):
                return ImageSpec.of(spec)
        return ImageSpec.of(self._image(index)[1])

    def _audio_spec(self, index: int) -> AudioSpec:
        spec = self._of_kind("audio")[index].spec
        if not isinstance(spec, StoredAudioSpec):
            raise TypeError(f"an audio block with {spec!r}")
        return AudioSpec.of(spec)


_ITEMS = {
    "record_format_version": "format_version",
    "record_index": "record_index",
    "record_type": "record_type",
    "recordable_id": "stream_id",
    "stream_id": "stream_id",
    "timestamp": "timestamp",
    "audio_block_count": "n_audio_blocks",
    "custom_block_count": "n_custom_blocks",
    "image_count": "n_image_blocks",
    "metadata_count": "n_metadata_blocks",
}


def _number(value: float) -> str:
    """Return the shortest text for a number, as the reference writes it."""
    return repr(value).removesuffix(".0")


def recode(value: Any, encoding: str) -> Any:
    """Return a value with all text in it decoded again, by another encoding."""
    if encoding == SAFE_ENCODING:
        return value
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape").decode(encoding)
        except UnicodeDecodeError as err:
            raise FormatError(f"text {value!r} is not {encoding}: {err.reason}") from err
    if isinstance(value, dict):
        return {recode(key, encoding): recode(item, encoding) for key, item in value.items()}
    if isinstance(value, list):
        return [recode(item, encoding) for item in value]
    return value
