"""Decoding of payloads to blocks, for the records of one stream, type and version.

A `StreamDecoder` parses the record format and compiles the layouts of its records once, on first
use. `decode` then walks the blocks of a payload. A metadata block contains its own size. The size
of any other block comes from the format, from the layout before it, or from the rest of the payload
(rules 2.2 and 2.5 in docs/formats/vrs.md, "Blocks"). Sizes come from the file and are compared with
the payload before they are used. `metadata` decodes only values, without a walk if the layouts come
first.

Contract: any payload gives blocks and a note; a damaged format or layout is a `FormatError`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...plugin import BytesLike, FormatError, TruncatedError, UnsupportedError
from ..block.audio import AudioFormat, AudioSpec
from ..block.pixels import ImageFormat, ImageSpec
from ..format.format import RecordType
from ..format.recordformat import (
    ContentBlock,
    ContentType,
    layout_tag,
    parse_record_format,
    record_format_tag,
)
from ..layout.conventions import BlockFields, LayoutFields, fit_pcm
from ..layout.datalayout import DataLayout
from .keyframes import frame_group
from .record import Block, BlockKind, BlockSpec, CustomSpec, Decoded, Record, RecordSource

_NO_FIELDS_IMAGES = frozenset(
    (ImageFormat.JPG, ImageFormat.PNG, ImageFormat.JXL, ImageFormat.UNDEFINED)
)


@dataclass(frozen=True, slots=True)
class _Step:
    """Properties of a block that follow from the record format alone."""

    index: int
    content: ContentBlock
    nbytes: int | None
    """Size of the block; None if the format does not give it."""
    nbytes_after: int | None
    """Size of all later blocks; None if the format does not give it."""
    spec: ImageSpec | AudioSpec | CustomSpec
    """Spec of the block by the format alone."""
    layout: DataLayout | None
    fields: LayoutFields | None


@dataclass(frozen=True, slots=True)
class _Configuration:
    """Conventional values of the last configuration record, cached for the records after it."""

    record_index: int
    fields: list[BlockFields]
    images: dict[int, ImageSpec | None]
    """Image specs from these values, by the index of the block; None if they give none."""


_NO_CONFIGURATION = _Configuration(-1, [], {})


class _Walk:
    """State of decoding one payload."""

    __slots__ = ("at", "before", "blocks", "fields", "payload", "record")

    def __init__(self, record: Record) -> None:
        self.record = record
        # A payload in reused memory is writable; the arrays of its blocks must not be.
        self.payload = memoryview(record.payload).toreadonly()
        self.at = 0
        self.blocks: list[Block] = []
        self.fields: list[BlockFields] = []
        # Fields of the block right before, if it is metadata.
        self.before: BlockFields | None = None

    @property
    def left(self) -> int:
        return len(self.payload) - self.at


class _StopError(Exception):
    """Raised where decoding cannot continue; the message becomes `Record.note`."""


class StreamDecoder:
    """Decoder of the records of one stream, type and version.

    The ``RF:`` and ``DL:`` tags of the stream are used. The recording, `source`, is needed to find
    configuration records and video frames. The attribute `record_type` is in lower case:
    ``"data"``.
    """

    def __init__(
        self,
        stream_id: str,
        record_type: int,
        format_version: int,
        tags: Mapping[str, str],
        source: RecordSource,
    ) -> None:
        self.stream_id = stream_id
        self.record_type = RecordType(record_type).name.lower()
        self.format_version = format_version
        self.source = source
        self._type = record_type
        self._tags = tags
        self._steps: tuple[_Step, ...] | None = None
        self._leading: tuple[DataLayout, ...] | None = None
        self._configured = _NO_CONFIGURATION

    @property
    def layouts(self) -> dict[int, DataLayout]:
        """Layouts by the index of their block."""
        steps = self._plan()
        return {step.index: step.layout for step in steps if step.layout is not None}

    @property
    def contents(self) -> tuple[ContentBlock, ...]:
        """Blocks that the record format lists."""
        return tuple(step.content for step in self._plan())

    def _plan(self) -> tuple[_Step, ...]:
        if self._steps is None:
            self._steps = self._compile()
        return self._steps

    def _compile(self) -> tuple[_Step, ...]:
        tag = record_format_tag(self._type, self.format_version)
        text = self._tags.get(tag)
        if text is None:
            return ()
        blocks = self._parsed(tag, text, parse_record_format).used_blocks
        steps: list[_Step] = []
        after: int | None = 0
        for index in range(len(blocks) - 1, -1, -1):
            content = blocks[index]
            layout = self._layout(index) if content.content_type == _DATA_LAYOUT else None
            fields = None if layout is None else LayoutFields(layout)
            nbytes = content.nbytes
            spec = _spec_of(content)
            steps.append(_Step(index, content, nbytes, after, spec, layout, fields))
            after = None if after is None or nbytes is None else after + nbytes
        return tuple(reversed(steps))

    def _layout(self, index: int) -> DataLayout | None:
        tag = layout_tag(self._type, self.format_version, index)
        text = self._tags.get(tag)
        return None if text is None else self._parsed(tag, text, DataLayout.from_json)

    def _parsed(self, tag: str, text: str, parse: "Callable[[str], Any]") -> Any:
        try:
            return parse(text)
        except FormatError as err:
            err.at(f"stream {self.stream_id}, tag {tag}")
            raise

    def metadata(self, record: Record, /) -> tuple[dict[str, Any], ...]:
        """Return the values of the metadata blocks of a record, by label."""
        leading = self._leading
        if leading is None:
            leading = self._leading = self._leading_layouts()
        if len(leading) == 1:
            return (leading[0].decode(record.payload)[0],)
        if not leading:
            return tuple(block.values() for block in record.blocks if block.kind == "metadata")
        return _decode_leading(leading, record.payload)

    def _leading_layouts(self) -> tuple[DataLayout, ...]:
        """Return the layouts if all are known and come before all other blocks, else ()."""
        steps = self._plan()
        n = next((i for i, step in enumerate(steps) if step.layout is None), len(steps))
        if any(step.content.content_type == _DATA_LAYOUT for step in steps[n:]):
            return ()
        layouts = tuple(step.layout for step in steps[:n] if step.layout is not None)
        return () if any(layout.undecodable for layout in layouts[:-1]) else layouts

    def decode(self, record: Record, /) -> Decoded:
        """Return the blocks of a record, its note, and the number of payload bytes in blocks."""
        walk, note = self._walk(record)
        if note is None and walk.left:
            tag = record_format_tag(self._type, self.format_version)
            note = f"{walk.left} bytes unread" if tag in self._tags else "no format"
        return tuple(walk.blocks), note, walk.at

    def _walk(self, record: Record) -> tuple[_Walk, str | None]:
        """Locate the blocks of a record; return why that ended early, or None."""
        walk = _Walk(record)
        for step in self._plan():
            try:
                _READERS[step.content.content_type](self, walk, step)
            except _StopError as stop:
                return walk, f"block {step.index}: {stop}"
        return walk, None

    def _take(
        self, walk: _Walk, kind: BlockKind, nbytes: int, spec: BlockSpec, frames: Any = None
    ) -> None:
        """Add a block of `nbytes`; if the payload is too short, add it and stop the walk."""
        end = walk.at + nbytes
        if end > len(walk.payload):
            needed = f"{nbytes} bytes needed, {walk.left} left"
            fault = TruncatedError(
                f"record {walk.record.record_index} of stream {self.stream_id}, "
                f"block {len(walk.blocks)}: {needed}",
                offset=walk.at,
            )
            walk.blocks.append(Block(kind, nbytes, fault, spec, frames))
            raise _StopError(needed)
        walk.blocks.append(Block(kind, nbytes, walk.payload[walk.at : end], spec, frames))
        walk.at = end
        walk.before = None

    def _skip(self, walk: _Walk, step: _Step, spec: BlockSpec) -> None:
        """Add an unsupported block; skip its bytes if the format gives the size, else stop."""
        if step.nbytes is not None:
            self._take(walk, "unsupported", step.nbytes, spec)
            return
        fault = UnsupportedError(
            f"record {walk.record.record_index} of stream {self.stream_id}, "
            f"block {step.index}: its size is unknown"
        )
        walk.blocks.append(Block("unsupported", None, fault, spec))
        raise _StopError("size unknown")

    def _find_nbytes(self, walk: _Walk, step: _Step) -> int | None:
        """Return the size of a block by the rules of 2.2; None if it cannot be determined."""
        if walk.before is not None:
            fields, view, at = walk.before
            nbytes = fields.next_size(view, at)
            if nbytes is not None:
                return nbytes
        if step.nbytes is not None:
            return step.nbytes if step.nbytes <= walk.left else None
        after = step.nbytes_after
        return walk.left - after if after is not None and after <= walk.left else None

    def _read_empty(self, walk: _Walk, step: _Step) -> None:
        walk.before = None

    def _read_metadata(self, walk: _Walk, step: _Step) -> None:
        layout, at = step.layout, walk.at
        if layout is None or step.fields is None:
            raise _StopError("layout missing")
        if layout.undecodable is not None:
            # Pieces before the unknown one can be decoded, but the end of the block is unknown.
            walk.blocks.append(Block("metadata", None, walk.payload[at:], layout))
            raise _StopError("size unknown")
        try:
            nbytes = layout.nbytes(walk.payload, at)
        except TruncatedError:
            nbytes = layout.prefix_nbytes
        self._take(walk, "metadata", nbytes, layout)
        walk.before = step.fields, walk.payload, at
        walk.fields.append(walk.before)

    def _read_custom(self, walk: _Walk, step: _Step) -> None:
        spec = step.spec
        # A size in the format counts first here; `_find_nbytes` asks the layout before it.
        nbytes = step.nbytes if step.nbytes is not None else self._find_nbytes(walk, step)
        if nbytes is None:
            self._skip(walk, step, spec)
        else:
            self._take(walk, "custom", nbytes, spec)

    def _read_image(self, walk: _Walk, step: _Step) -> None:
        base = step.content.image
        if base.image_format == ImageFormat.RAW:
            self._read_raw(walk, step, base)
            return
        nbytes = self._find_nbytes(walk, step)
        spec: ImageSpec | None = base
        if nbytes is not None and base.image_format not in _NO_FIELDS_IMAGES:
            spec = self._find_image(walk, step, base)
        if nbytes is None or spec is None:
            self._skip(walk, step, base)
        elif spec.image_format == ImageFormat.VIDEO:
            self._take_video(walk, nbytes, spec)
        else:
            self._take(walk, "image", nbytes, spec)

    def _read_raw(self, walk: _Walk, step: _Step, base: ImageSpec) -> None:
        if base.raw_nbytes is not None and step.nbytes is not None:
            self._take(walk, "image", step.nbytes, step.spec)
            return
        spec = self._find_image(walk, step, base)
        if spec is None or spec.raw_nbytes is None:
            self._skip(walk, step, base)
        else:
            self._take(walk, "image", spec.raw_nbytes, spec)

    def _take_video(self, walk: _Walk, nbytes: int, spec: ImageSpec) -> None:
        if walk.before is not None:
            fields, view, at = walk.before
            key_frame = fields.key_frame(view, at)
            if key_frame is not None:
                timestamp, index = key_frame
                spec = replace(spec, key_frame_timestamp=timestamp, key_frame_index=index)
        source, index, nth = self.source, walk.record.record_index, len(walk.blocks)
        self._take(walk, "image", nbytes, spec, lambda: frame_group(source, index, nth, spec))

    def _find_image(self, walk: _Walk, step: _Step, base: ImageSpec) -> ImageSpec | None:
        for fields, view, at in reversed(walk.fields):
            spec = fields.image_spec(view, at, base)
            if spec is not None:
                return spec
        found = self._configuration(walk.record)
        if not found.fields:
            return None
        if step.index not in found.images:
            specs = (fields.image_spec(view, at, base) for fields, view, at in found.fields)
            found.images[step.index] = next((spec for spec in specs if spec is not None), None)
        return found.images[step.index]

    def _read_audio(self, walk: _Walk, step: _Step) -> None:
        base = step.content.audio
        spec: AudioSpec | None = base
        if not (base.audio_format and base.sample_format and base.channel_count):
            spec = self._find_audio(walk)
        nbytes = self._find_nbytes(walk, step)
        if spec is not None and spec.audio_format == AudioFormat.PCM:
            spec, nbytes = fit_pcm(spec, nbytes)
        if spec is None or nbytes is None:
            self._skip(walk, step, base)
        else:
            self._take(walk, "audio", nbytes, spec)

    def _find_audio(self, walk: _Walk) -> AudioSpec | None:
        candidates = [] if walk.before is None else [walk.before]
        for fields, view, at in (*candidates, *self._configuration(walk.record).fields):
            spec = fields.audio_spec(view, at)
            if spec is None:
                continue
            if not spec.sample_count and walk.before is not None:
                before, view, at = walk.before
                spec = replace(spec, sample_count=before.audio_sample_count(view, at))
            return spec
        return None

    def _configuration(self, record: Record) -> _Configuration:
        """Return the values of the stream's last configuration record that is not newer."""
        if self._type == RecordType.CONFIGURATION:
            return _NO_CONFIGURATION
        found = self.source.configuration_before(record.record_index)
        # Written as "not <=" because a NaN time is neither before nor after any other.
        if found is None or not found.timestamp <= record.timestamp:
            return _NO_CONFIGURATION
        configured = self._configured
        if configured.record_index != found.record_index:
            configured = _Configuration(found.record_index, found._decoder.fields(found), {})
            self._configured = configured
        return configured

    def fields(self, record: Record, /) -> list[BlockFields]:
        """Return the conventional values of a record's metadata blocks, the last block first."""
        # If the walk ended early, the fields of the blocks before that place are valid.
        return self._walk(record)[0].fields[::-1]


def _spec_of(content: ContentBlock) -> ImageSpec | AudioSpec | CustomSpec:
    if content.content_type == ContentType.IMAGE:
        spec = content.image
        is_whole = spec.image_format == ImageFormat.RAW and spec.raw_nbytes is not None
        return replace(spec, buffer_size=content.nbytes or 0) if is_whole else spec
    if content.content_type == ContentType.AUDIO:
        return content.audio
    return CustomSpec(content.custom_format)


def _decode_leading(
    layouts: tuple[DataLayout, ...], payload: BytesLike
) -> tuple[dict[str, Any], ...]:
    found, at = [], 0
    for layout in layouts:
        values, nbytes = layout.decode(payload, at)
        found.append(values)
        at += nbytes or 0
    return tuple(found)


_DATA_LAYOUT = ContentType.DATA_LAYOUT
_READERS: dict[ContentType, Callable[[StreamDecoder, _Walk, _Step], None]] = {
    ContentType.EMPTY: StreamDecoder._read_empty,
    ContentType.CUSTOM: StreamDecoder._read_custom,
    ContentType.DATA_LAYOUT: StreamDecoder._read_metadata,
    ContentType.IMAGE: StreamDecoder._read_image,
    ContentType.AUDIO: StreamDecoder._read_audio,
}
