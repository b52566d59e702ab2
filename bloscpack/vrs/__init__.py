"""VRS recordings: records of many sensors with time stamps, in streams that describe themselves."""

from .format import Compression, RecordType, StreamId
from .layout import DataLayout
from .record import Block, Record
from .recording import Recording, open  # noqa: A004
from .report import Report
from .schema import Array, Layout, Nested, String, StringMap, Value, Vector
from .sequence import RecordSequence, Selection
from .standard import AudioLayout, ImageLayout, NextBlockLayout, VideoFrameLayout
from .stream import Stream

__all__ = [
    "Array",
    "AudioLayout",
    "Block",
    "Compression",
    "DataLayout",
    "ImageLayout",
    "Layout",
    "Nested",
    "NextBlockLayout",
    "Record",
    "RecordSequence",
    "RecordType",
    "Recording",
    "Report",
    "Selection",
    "Stream",
    "StreamId",
    "String",
    "StringMap",
    "Value",
    "Vector",
    "VideoFrameLayout",
    "open",
]
