"""From values to the payload of a record, as its record format says; `decoding` goes back.

A `RecordEncoder` is made once per stream, record type and version, checks that readers will find
every block, and gives the tags that tell them. Encoding writes nothing: whatever does not fit is an
error before a byte is in the file.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from ...types import BytesLike
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
"""What may stand for a block in the definition of a record."""


class _Content(Protocol):
    """What encodes one block."""

    block: ContentBlock

    def encode(self, value: Any) -> BytesLike:
        """Return the bytes of the block."""
        ...


class Metadata:
    """A block of a data layout.

    Attributes
    ----------
    layout : DataLayout
        The definition.
    block : ContentBlock
        What the record format says: the size, if it is always the same.
    next_size_key : str or None
        Key of the piece that tells the size of the next block.
    """

    def __init__(self, layout: DataLayout) -> None:
        self.layout = layout
        size = None if layout.variable or layout.undecodable else layout.fixed_nbytes
        self.block = ContentBlock(ContentType.DATA_LAYOUT, size)
        self.next_size_key = layout.key(*NEXT_SIZE)
        # Spares a call per record.
        self._encode = layout.encode

    def values(self, value: Any) -> Mapping[str, Any]:
        """Return a dict or an instance of a `Layout` class as a mapping.

        Raises
        ------
        TypeError
            It is neither.
        ValueError
            The instance has a piece set that is not in the definition.
        """
        if isinstance(value, Layout):
            return value.to_values(self.layout)
        if isinstance(value, Mapping):
            return value
        raise TypeError(f"metadata block: expected a dict or a Layout, not {type(value).__name__}")

    def encode(self, value: Any) -> bytes:
        """Return the bytes of the block.

        Raises
        ------
        TypeError, ValueError
            The value is no mapping, has an unknown key, or one of its values does not fit.
        """
        return self._encode(value if type(value) is dict else self.values(value))


class RecordEncoder:
    """What makes payloads of one record format.

    Parameters
    ----------
    record_type : RecordType
    version : int
        Which of the stream's record formats of that type it is.
    declarations : sequence
        `Layout` classes, `DataLayout`, `Image`, `Audio` and `Custom`, one per block.

    Attributes
    ----------
    record_type : RecordType
    version : int
    tags : dict of str
        The record format and the layouts, as VRS tags of the stream.

    Raises
    ------
    TypeError
        A declaration is none of these.
    ValueError
        There are too many blocks, or readers could not tell where one ends.
    """

    def __init__(
        self, record_type: RecordType, version: int, declarations: Sequence[BlockDeclaration]
    ) -> None:
        self.record_type = record_type
        self.version = version
        self._contents = [_content(declared) for declared in declarations]
        if len(self._contents) > MAX_BLOCKS:
            raise ValueError(f"{len(self._contents)} blocks, at most {MAX_BLOCKS}")
        _check_sizes(self._contents)
        record_format = RecordFormat(tuple(content.block for content in self._contents))
        self.tags = {record_format_tag(record_type, version): str(record_format)}
        for index, content in enumerate(self._contents):
            if isinstance(content, Metadata):
                self.tags[layout_tag(record_type, version, index)] = content.layout.to_json()
        self._fills_sizes = any(
            isinstance(content, Metadata)
            and content.next_size_key
            and index + 1 < len(declarations)
            for index, content in enumerate(self._contents)
        )
        only = self._contents[0] if len(self._contents) == 1 else None
        self._encode_only = only.encode if isinstance(only, Metadata) else None

    def encode(self, values: Sequence[Any]) -> list[BytesLike]:
        """Return the bytes of the blocks, those of arrays uncopied where possible.

        Parameters
        ----------
        values : sequence
            One per block. A `next_content_block_size` that is left out is filled in.

        Raises
        ------
        TypeError, ValueError
            A value does not fit its block, or there is another number of them.
        """
        if self._encode_only is not None and len(values) == 1:
            return [self._encode_only(values[0])]
        if len(values) != len(self._contents):
            raise TypeError(
                f"{self.record_type.name.lower()} record of version {self.version}:"
                f" {len(values)} values for {len(self._contents)} blocks"
            )
        if self._fills_sizes:
            return self._encode_with_sizes(values)
        return [
            content.encode(value) for content, value in zip(self._contents, values, strict=True)
        ]

    def _encode_with_sizes(self, values: Sequence[Any]) -> list[BytesLike]:
        """Encode from the last block to the first: some tell the size of the next."""
        parts: list[BytesLike] = []
        for content, value in zip(reversed(self._contents), reversed(values), strict=True):
            if isinstance(content, Metadata) and content.next_size_key and parts:
                given = content.values(value)
                nbytes = len(parts[-1])
                told = given.get(content.next_size_key, nbytes)
                # What a Layout has by default, nobody set.
                if told != nbytes and not (isinstance(value, Layout) and not told):
                    raise ValueError(f"{NEXT_SIZE[0]} is {told}: the next block has {nbytes} bytes")
                value = {**given, content.next_size_key: nbytes}
            parts.append(content.encode(value))
        return parts[::-1]


def _content(declared: object) -> _Content:
    if isinstance(declared, type) and issubclass(declared, Layout):
        return Metadata(declared.definition())
    if isinstance(declared, DataLayout):
        return Metadata(declared)
    if isinstance(declared, Image | Audio | Custom):
        return declared
    raise TypeError(
        f"block {declared!r}: expected a Layout class, a DataLayout, an Image, Audio or Custom"
    )


def _check_sizes(contents: Iterable[_Content]) -> None:
    """Raise if readers could not tell the size of a block.

    They know it if the format or the layout right before the block tells, or if the format tells
    the sizes of all that follow. Raw images and audio may have their size from any layout.
    """
    are_later_known = True
    listed = list(contents)
    for index in reversed(range(len(listed))):
        block = listed[index].block
        if block.content_type == ContentType.DATA_LAYOUT:
            is_told = True
        else:
            before = listed[index - 1] if index else None
            is_told = isinstance(before, Metadata) and before.next_size_key is not None
            is_told = is_told or block.nbytes is not None or _may_have_spec(block)
        if not is_told and not are_later_known:
            raise ValueError(
                f"block {index} ({block}): nothing tells readers its size; give it a size, or put"
                f" a layout with {NEXT_SIZE[0]} before it"
            )
        are_later_known = are_later_known and block.nbytes is not None


def _may_have_spec(block: ContentBlock) -> bool:
    """Return whether a layout may tell what is needed to know the size of a block."""
    if block.content_type == ContentType.AUDIO:
        return True
    is_image = block.content_type == ContentType.IMAGE
    return is_image and block.image.image_format == ImageFormat.RAW
