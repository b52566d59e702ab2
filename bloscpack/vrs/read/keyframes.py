"""Groups of video frames: a frame and all frames since its key frame.

A video frame can only be decoded together with all frames since its key frame. Each frame stores
the time of its key frame and the number of frames since then. A group is found by reading the
stream backwards: the same key frame time, and numbers that count down to 0.
"""

from ...plugin import FormatError
from ..block.pixels import ImageSpec
from .record import Block, Record, RecordSource


def frame_group(source: RecordSource, index: int, nth: int, spec: ImageSpec) -> list[Block]:
    """Return the blocks of a video frame and of all frames since its key frame, in order.

    `index` is the `record_index` of the frame, `nth` that of the image block in the record. Every
    record since the key frame is read; a missing frame of the group is a FormatError.
    """
    group: list[Block] = []
    record: Record | None = source[index]
    for ago in range(spec.key_frame_index, -1, -1):
        block = None if record is None else _image_block(record, nth)
        found = None if block is None else block.spec
        if record is None or block is None or not isinstance(found, ImageSpec):
            raise _missing(source[index], spec, ago)
        if (found.key_frame_timestamp, found.key_frame_index) != (spec.key_frame_timestamp, ago):
            raise _missing(source[index], spec, ago)
        group.append(block)
        record = source.data_before(record.record_index) if ago else None
    return group[::-1]


def _image_block(record: Record, nth: int) -> Block | None:
    blocks = record.blocks
    return blocks[nth] if nth < len(blocks) and blocks[nth].kind == "image" else None


def _missing(record: Record, spec: ImageSpec, ago: int) -> FormatError:
    return FormatError(
        f"record {record.record_index} of stream {record.stream_id}: its image is frame"
        f" {spec.key_frame_index} after a key frame, and frame {ago} is missing"
    )
