"""Frames of video that continue one another: from a key frame on.

A frame of video is decoded from all frames since its key frame. Each says when that was and how
many frames ago: the frames before it are those of the same stream, with the same key frame, that
count down to it.
"""

from ...exceptions import FormatError
from ..block.pixels import ImageSpec
from .record import Block, Record, RecordSource


def frame_group(source: RecordSource, index: int, nth: int, spec: ImageSpec) -> list[Block]:
    """Return the blocks of a frame of video and of all frames since its key frame.

    Parameters
    ----------
    source : RecordSource
        The recording.
    index : int
        Of the record.
    nth : int
        Which block of it the frame is.
    spec : ImageSpec
        Of the frame.

    Raises
    ------
    FormatError
        One of them is missing: the recording has no frame that this one continues.

    Notes
    -----
    Reads every record since the key frame, and no more than the stream has.
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
