"""Record formats: the text that lists the blocks of a record.

``data_layout/size=36+image/raw/640x480/pixel=grey8`` is two blocks. The grammar is that of the
reference's parser, which never fails. Blocks are joined by ``+``, attributes by ``/``. A block of
unknown type is custom; an unknown attribute is skipped; an empty attribute ends the block; an empty
block ends the format. If an attribute is given twice, the first one counts. Numbers are parsed as
by C's ``scanf``: text after the digits is ignored, and larger numbers wrap to 32 bits.

Contract: any text gives a value, or a `FormatError` if it has more than `MAX_BLOCKS` blocks.
Grammar: docs/formats/vrs.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ...plugin import FormatError
from ..block.audio import AUDIO_FORMATS, SAMPLE_FORMATS, AudioFormat, AudioSpec, SampleFormat
from ..block.pixels import (
    IMAGE_FORMATS,
    PIXEL_FORMATS,
    QUALITY_UNDEFINED,
    ImageFormat,
    ImageSpec,
    PixelFormat,
    is_quality_valid,
)
from .description import decode_text, encode_text
from .format import MAX_BLOCKS, RecordType

# Texts of this many bytes or more are ignored: the reference's buffer has 200.
_MAX_TEXT = 200
_CUSTOM_CHARACTERS = re.compile(rb"[^A-Za-z0-9_\-*.,;:!@~#&|\[\]{}']")
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
_TO_ESCAPE = re.compile(rb"[^!-~]|[+/\\%\"']")
_NUMBER = r"[ \t\n\v\f\r]*([+-]?[0-9]+)"
_DOUBLE = r"[ \t\n\v\f\r]*([+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?"
_DOUBLE += r"|[iI][nN][fF]|[nN][aA][nN]))"
_SIZE = re.compile("size=" + _NUMBER, re.ASCII)
_DIMENSIONS = re.compile("([0-9]+)x" + _NUMBER, re.ASCII)
_PIXEL = re.compile(r"pixel=\s*(\S+)", re.ASCII)
_STRIDE = re.compile("stride=" + _NUMBER, re.ASCII)
_STRIDE_2 = re.compile("stride_2=" + _NUMBER, re.ASCII)
_CODEC = re.compile(r"codec=\s*(\S+)", re.ASCII)
_QUALITY = re.compile("codec_quality=" + _NUMBER, re.ASCII)
_KEY_FRAME_TIMESTAMP = re.compile("keyframe_timestamp=" + _DOUBLE, re.ASCII)
_KEY_FRAME_INDEX = re.compile("keyframe_index=" + _NUMBER, re.ASCII)
_CHANNELS = re.compile("channels=" + _NUMBER, re.ASCII)
_RATE = re.compile("rate=" + _NUMBER, re.ASCII)
_SAMPLES = re.compile("samples=" + _NUMBER, re.ASCII)
_CUSTOM_FORMAT = "format="
# Number at the end of a tag name, in the form that writers use.
_TAG_NUMBER = re.compile("0|[1-9][0-9]{0,9}")

_UINT32, _UINT64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


class ContentType(IntEnum):
    """Kind of content of a block. The names, in lower case, are stored on disk."""

    CUSTOM = 0
    EMPTY = 1
    DATA_LAYOUT = 2
    IMAGE = 3
    AUDIO = 4

    def __str__(self) -> str:
        return self.name.lower()


_CONTENT_TYPES = {str(content): content for content in ContentType}


@dataclass(frozen=True, slots=True)
class ContentBlock:
    """One block of a record format.

    Attributes
    ----------
    content_type : ContentType
        Kind of content.
    size : int or None
        Bytes of the block; None if the text does not give them.
    image : ImageSpec
        Image attributes of the text; defaults for other content.
    audio : AudioSpec
        Audio attributes of the text; defaults for other content.
    custom_format : str
        Format name of a custom block; empty for other content.
    """

    content_type: ContentType = ContentType.EMPTY
    size: int | None = None
    image: ImageSpec = field(default_factory=ImageSpec)
    audio: AudioSpec = field(default_factory=AudioSpec)
    custom_format: str = ""

    @property
    def nbytes(self) -> int | None:
        """Bytes of the block; None if the text alone does not determine them."""
        if self.content_type == ContentType.EMPTY:
            return 0
        if self.size is not None:
            return self.size
        if self.content_type == ContentType.IMAGE and self.image.image_format == ImageFormat.RAW:
            return self.image.raw_nbytes
        if self.content_type == ContentType.AUDIO and self.audio.audio_format == AudioFormat.PCM:
            return self.audio.pcm_nbytes
        return None

    def __str__(self) -> str:
        parts = [str(self.content_type)]
        if self.size is not None:
            parts.append(f"size={self.size}")
        if self.content_type == ContentType.IMAGE:
            parts.extend(_image_attributes(self.image))
        elif self.content_type == ContentType.AUDIO:
            parts.extend(_audio_attributes(self.audio))
        elif self.content_type == ContentType.CUSTOM and self.custom_format:
            parts.append(_CUSTOM_FORMAT + custom_format_name(self.custom_format))
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """Blocks of a record, in order.

    Attributes
    ----------
    blocks : tuple of ContentBlock
        At least one.
    """

    blocks: tuple[ContentBlock, ...] = (ContentBlock(),)

    @property
    def used_blocks(self) -> tuple[ContentBlock, ...]:
        """Blocks without the empty ones at the end."""
        n = len(self.blocks)
        while n and self.blocks[n - 1].content_type == ContentType.EMPTY:
            n -= 1
        return self.blocks[:n]

    def __str__(self) -> str:
        """Return the text of the format, attributes in the order of the reference's writer."""
        return "+".join(map(str, self.blocks)) or str(ContentType.EMPTY)


def parse_record_format(text: str) -> RecordFormat:
    """Parse the text of a record format, the value of an ``RF:`` tag.

    Bytes that are not UTF-8 are surrogate escapes. More than `MAX_BLOCKS` blocks are refused:
    writers stay far below, and the limit bounds the work per file.
    """
    texts = text.split("+", MAX_BLOCKS + 1)
    # An empty first block does not end the format: it is custom.
    end = next((i for i, block in enumerate(texts) if i and not block), len(texts))
    if end > MAX_BLOCKS:
        raise FormatError(
            f"record format of more than {MAX_BLOCKS} blocks: {text[:60]!r}...", field="blocks"
        )
    return RecordFormat(tuple(map(_parse_block, texts[:end])))


def record_format_tag(record_type: int, version: int) -> str:
    """Return the name of the stream tag that holds a record format."""
    return f"RF:{RecordType(record_type).name.capitalize()}:{version}"


def layout_tag(record_type: int, version: int, block: int) -> str:
    """Return the name of the stream tag that holds the layout of a block."""
    return f"DL:{RecordType(record_type).name.capitalize()}:{version}:{block}"


def defined_formats(tags: Mapping[str, str], record_type: int) -> dict[int, str]:
    """Return the record formats that the tags of a stream define, by ascending version."""
    return _numbered(tags, record_format_tag(record_type, 0))


def defined_layouts(tags: Mapping[str, str], record_type: int, version: int) -> dict[int, str]:
    """Return the layout definitions that tags hold for a record format, by ascending block."""
    return _numbered(tags, layout_tag(record_type, version, 0))


def _numbered(tags: Mapping[str, str], name: str) -> dict[int, str]:
    """Return the tags named like `name` with any 32-bit number in place of its final 0."""
    prefix = name.removesuffix("0")
    texts = [tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)]
    numbers = sorted(int(text) for text in texts if _TAG_NUMBER.fullmatch(text))
    return {number: tags[f"{prefix}{number}"] for number in numbers if number <= _UINT32}


def custom_format_name(name: str) -> str:
    """Return `name` with ``_`` for every byte that a format string may not contain."""
    return _CUSTOM_CHARACTERS.sub(b"_", encode_text(name)).decode("ascii")


def _parse_block(text: str) -> ContentBlock:
    attributes = iter(text.split("/"))
    content_type = _CONTENT_TYPES.get(next(attributes), ContentType.CUSTOM)
    first = next(attributes, "")
    found = _SIZE.match(first)
    size = None if found is None else _wrap(found[1])
    if size is not None:
        first = next(attributes, "")
    if content_type == ContentType.IMAGE:
        return ContentBlock(content_type, size, image=_parse_image(first, attributes))
    if content_type == ContentType.AUDIO:
        return ContentBlock(content_type, size, audio=_parse_audio(first, attributes))
    if content_type == ContentType.CUSTOM and first.startswith(_CUSTOM_FORMAT):
        name = custom_format_name(first[len(_CUSTOM_FORMAT) :])
        return ContentBlock(content_type, size, custom_format=name)
    return ContentBlock(content_type, size)


def _read_attributes(
    attributes: Iterator[str], readers: Mapping[str, tuple["_Reader", ...]]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in attributes:
        if not text:
            break
        for read in readers.get(text[0], ()):
            if read(text, found):
                break
    return found


def _wrap(digits: str) -> int:
    """Return the 32-bit number that C's ``%u`` stores for `digits`, which may have a sign."""
    # Numbers of more than 20 digits do not fit 64 bits; converting a long text would be slow.
    number = digits.lstrip("+-").lstrip("0")
    value = int(number or "0") if len(number) <= 20 else _UINT64 + 1
    if value > _UINT64:
        return _UINT32
    return (-value if digits[0] == "-" else value) & _UINT32


def _parse_image(first: str, attributes: Iterator[str]) -> ImageSpec:
    image_format = IMAGE_FORMATS.get(first, ImageFormat.UNDEFINED)
    if image_format == ImageFormat.UNDEFINED:
        return ImageSpec()
    return ImageSpec(image_format=image_format, **_read_attributes(attributes, _IMAGE_READERS))


_Reader = Callable[[str, dict[str, Any]], bool]


def _read_dimensions(text: str, found: dict[str, Any]) -> bool:
    dimensions = _DIMENSIONS.match(text)
    if found.get("width") or dimensions is None:
        return False
    found["width"], found["height"] = map(_wrap, dimensions.groups())
    return True


def _reader(
    name: str,
    pattern: re.Pattern[str],
    convert: Callable[[str], Any],
    *,
    is_text: bool = False,
    last_wins: bool = False,
) -> _Reader:
    """Return a reader of an attribute; unless `last_wins`, the first value that is not 0 counts."""

    def read(text: str, found: dict[str, Any]) -> bool:
        match = pattern.match(text)
        if match is None or (found.get(name) and not last_wins):
            return False
        if is_text and len(encode_text(text)) >= _MAX_TEXT:
            return False
        found[name] = convert(match[1])
        return True

    return read


def _byte(digits: str) -> int:
    return _wrap(digits) & 0xFF


def _quality(digits: str) -> int:
    quality = _byte(digits)
    return quality if is_quality_valid(quality) else QUALITY_UNDEFINED


def _pixel_format(name: str) -> PixelFormat:
    return PIXEL_FORMATS.get(name, PixelFormat.UNDEFINED)


def _unescaped(text: str) -> str:
    raw = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), encode_text(text))
    return decode_text(raw.partition(b"\0")[0])


def _read_sample_format(text: str, found: dict[str, Any]) -> bool:
    sample_format = SAMPLE_FORMATS.get(text, SampleFormat.UNDEFINED)
    if found.get("sample_format") or sample_format == SampleFormat.UNDEFINED:
        return False
    found["sample_format"] = sample_format
    return True


# Readers by the first character of an attribute: unknown attributes cost no pattern match.
_IMAGE_READERS: dict[str, tuple[_Reader, ...]] = {
    **dict.fromkeys("0123456789", (_read_dimensions,)),
    "p": (_reader("pixel_format", _PIXEL, _pixel_format, is_text=True),),
    "s": (_reader("stride", _STRIDE, _wrap), _reader("stride_2", _STRIDE_2, _wrap)),
    "c": (
        _reader("codec_name", _CODEC, _unescaped, is_text=True),
        _reader("codec_quality", _QUALITY, _quality, last_wins=True),
    ),
    "k": (
        _reader("key_frame_timestamp", _KEY_FRAME_TIMESTAMP, float, last_wins=True),
        _reader("key_frame_index", _KEY_FRAME_INDEX, _wrap, last_wins=True),
    ),
}
_AUDIO_READERS: dict[str, tuple[_Reader, ...]] = {
    **dict.fromkeys("iuf", (_read_sample_format,)),  # int16le, uint8, float32be
    # The reference has 8-bit fields for channels and stride.
    "c": (_reader("channel_count", _CHANNELS, _byte),),
    "r": (_reader("sample_rate", _RATE, _wrap),),
    "s": (
        _reader("sample_count", _SAMPLES, _wrap),
        _reader("sample_frame_stride", _STRIDE, _byte),
    ),
}


def _parse_audio(first: str, attributes: Iterator[str]) -> AudioSpec:
    audio_format = AUDIO_FORMATS.get(first, AudioFormat.UNDEFINED)
    if audio_format == AudioFormat.UNDEFINED:
        return AudioSpec()
    return AudioSpec(audio_format=audio_format, **_read_attributes(attributes, _AUDIO_READERS))


def _image_attributes(spec: ImageSpec) -> Iterator[str]:
    image_format = spec.image_format
    if image_format == ImageFormat.UNDEFINED:
        return
    yield str(image_format)
    if spec.width and spec.height:
        yield f"{spec.width}x{spec.height}"
    if spec.pixel_format:
        yield f"pixel={spec.pixel_format}"
    if image_format in (ImageFormat.RAW, ImageFormat.VIDEO, ImageFormat.CUSTOM_CODEC):
        if spec.stride:
            yield f"stride={spec.stride}"
        if spec.stride_2:
            yield f"stride_2={spec.stride_2}"
    if image_format in (ImageFormat.VIDEO, ImageFormat.CUSTOM_CODEC):
        yield from _codec_attributes(spec)


def _codec_attributes(spec: ImageSpec) -> Iterator[str]:
    if spec.codec_name:
        yield f"codec={_escaped(spec.codec_name)}"
    if spec.is_quality_known:
        yield f"codec_quality={spec.codec_quality}"
    if spec.image_format == ImageFormat.VIDEO and spec.key_frame_timestamp is not None:
        yield f"keyframe_timestamp={spec.key_frame_timestamp:.9f}"
        yield f"keyframe_index={spec.key_frame_index}"


def _audio_attributes(spec: AudioSpec) -> Iterator[str]:
    if spec.audio_format == AudioFormat.UNDEFINED:
        return
    yield str(spec.audio_format)
    if spec.sample_format:
        yield str(spec.sample_format)
    if spec.channel_count:
        yield f"channels={spec.channel_count}"
    if spec.sample_rate:
        yield f"rate={spec.sample_rate}"
    if spec.sample_count:
        yield f"samples={spec.sample_count}"
    if spec.frame_nbytes != spec.min_frame_nbytes:
        yield f"stride={spec.sample_frame_stride}"


def _escaped(text: str) -> str:
    escaped = _TO_ESCAPE.sub(lambda found: b"%%%02X" % found[0][0], encode_text(text))
    return escaped.decode("ascii")
