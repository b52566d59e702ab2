"""Encoder of record payloads by their record format; `decoding` is its inverse.

A `RecordEncoder` is made once per stream, record type and version. It checks that readers can find
every block, and returns the tags that describe the blocks. Encoding writes nothing: a value that
does not fit raises before a byte is in the file.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from ...plugin import BytesLike
from ..block.pixels import ImageFormat
from ..format.format import MAX_BLOCKS, RecordType
from ..format.recordformat import (
    ContentBlock,
    ContentType,
    RecordFormat,
    layout_tag,
    record_format_tag,
)
from ..layout.conventions import NEXT_SIZE
from ..layout.datalayout import DataLayout
from ..layout.schema import Layout
from .declaration import Audio, Custom, Image

BlockDeclaration = type[Layout] | DataLayout | Image | Audio | Custom
"""Types that may declare a block in the definition of a record."""


class _BlockEncoder(Protocol):
    block: ContentBlock

    def encode(self, value: Any) -> BytesLike:
        """Return the bytes of the block."""


class Metadata:
    """Declaration of a metadata block with a data layout.

    `block` is its part of the record format: the size, if all records have the same.
    `next_size_key` is the key of the piece that holds the size of the next block.
    """

    def __init__(self, layout: DataLayout) -> None:
        self.layout = layout
        size = None if layout.variable or layout.undecodable else layout.fixed_nbytes
        self.block = ContentBlock(ContentType.DATA_LAYOUT, size)
        self.next_size_key = layout.key(*NEXT_SIZE)
        # Saves an attribute look-up and a call for each record.
        self._encode = layout.encode

    def values(self, value: Any) -> Mapping[str, Any]:
        """Return a dict or an instance of a `Layout` class as a mapping."""
        if isinstance(value, Layout):
            return value.to_values(self.layout)
        if isinstance(value, Mapping):
            return value
        raise TypeError(f"metadata block: expected a dict or a Layout, not {type(value).__name__}")

    def encode(self, value: Any) -> bytes:
        """Return the bytes of the block."""
        return self._encode(value if type(value) is dict else self.values(value))


class RecordEncoder:
    """Encoder of the payloads of one record format.

    A stream may have several versions for a record type. `declarations` are `Layout` classes,
    `DataLayout`, `Image`, `Audio` and `Custom`, one per block; ValueError if readers could not find
    the end of one. `tags` are the record format and the layouts, as VRS tags of the stream.
    """

    def __init__(
        self, record_type: RecordType, version: int, declarations: Sequence[BlockDeclaration]
    ) -> None:
        self.record_type = record_type
        self.version = version
        self._encoders = [_block_encoder(declared) for declared in declarations]
        if len(self._encoders) > MAX_BLOCKS:
            raise ValueError(f"{len(self._encoders)} blocks: expected at most {MAX_BLOCKS}")
        _check_sizes(self._encoders)
        record_format = RecordFormat(tuple(content.block for content in self._encoders))
        self.tags = {record_format_tag(record_type, version): str(record_format)}
        for index, content in enumerate(self._encoders):
            if isinstance(content, Metadata):
                self.tags[layout_tag(record_type, version, index)] = content.layout.to_json()
        self._fills_sizes = any(
            isinstance(content, Metadata)
            and content.next_size_key
            and index + 1 < len(declarations)
            for index, content in enumerate(self._encoders)
        )
        only = self._encoders[0] if len(self._encoders) == 1 else None
        self._encode_only = only.encode if isinstance(only, Metadata) else None

    def encode(self, values: Sequence[Any]) -> list[BytesLike]:
        """Return the bytes of the blocks, one for each value.

        Views of arrays where no copy is needed. A `next_content_block_size` that is not set is
        filled in.
        """
        if self._encode_only is not None and len(values) == 1:
            return [self._encode_only(values[0])]
        if len(values) != len(self._encoders):
            raise TypeError(
                f"{self.record_type.name.lower()} record of version {self.version}:"
                f" {len(values)} values for {len(self._encoders)} blocks"
            )
        if self._fills_sizes:
            return self._encode_with_sizes(values)
        return [
            content.encode(value) for content, value in zip(self._encoders, values, strict=True)
        ]

    def _encode_with_sizes(self, values: Sequence[Any]) -> list[BytesLike]:
        """Encode from the last block to the first, as some hold the size of the next."""
        parts: list[BytesLike] = []
        for content, value in zip(reversed(self._encoders), reversed(values), strict=True):
            if isinstance(content, Metadata) and content.next_size_key and parts:
                given = content.values(value)
                nbytes = len(parts[-1])
                given_size = given.get(content.next_size_key, nbytes)
                # The default of a Layout was not set by the caller, so it may be replaced.
                if given_size != nbytes and not (isinstance(value, Layout) and not given_size):
                    raise ValueError(
                        f"{NEXT_SIZE[0]} is {given_size}: the next block has {nbytes} bytes"
                    )
                value = {**given, content.next_size_key: nbytes}
            parts.append(content.encode(value))
        return parts[::-1]


def _block_encoder(declared: object) -> _BlockEncoder:
    if isinstance(declared, type) and issubclass(declared, Layout):
        return Metadata(declared.definition())
    if isinstance(declared, DataLayout):
        return Metadata(declared)
    if isinstance(declared, Image | Audio | Custom):
        return declared
    raise TypeError(
        f"block {declared!r}: expected a Layout class, a DataLayout, an Image, Audio or Custom"
    )


def _check_sizes(contents: Iterable[_BlockEncoder]) -> None:
    """Raise if readers could not find the size of a block.

    They can if the format or the layout right before the block gives it, or if the format gives the
    sizes of all later blocks. Raw images and audio may have their size from any layout.
    """
    are_later_known = True
    listed = list(contents)
    for index in reversed(range(len(listed))):
        block = listed[index].block
        if block.content_type == ContentType.DATA_LAYOUT:
            is_known = True
        else:
            before = listed[index - 1] if index else None
            is_known = isinstance(before, Metadata) and before.next_size_key is not None
            is_known = is_known or block.nbytes is not None or _may_have_spec(block)
        if not is_known and not are_later_known:
            raise ValueError(
                f"block {index} ({block}): readers cannot find its size; declare a size, or put"
                f" a layout with {NEXT_SIZE[0]} before it"
            )
        are_later_known = are_later_known and block.nbytes is not None


def _may_have_spec(block: ContentBlock) -> bool:
    """Return whether a layout may give the values from which the block's size is computed."""
    if block.content_type == ContentType.AUDIO:
        return True
    is_image = block.content_type == ContentType.IMAGE
    return is_image and block.image.image_format == ImageFormat.RAW
