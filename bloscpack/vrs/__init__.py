"""VRS recordings: records of many sensors with time stamps, in streams that describe themselves."""

from .audio import AudioFormat, AudioSpec, SampleFormat
from .format import Compression, RecordType, StreamId
from .layout import DataLayout
from .pixels import ImageConversion, ImageFormat, ImageSpec, PixelFormat, image_planes
from .record import Block, CustomSpec, Record
from .recordformat import ContentBlock, ContentType, RecordFormat
from .recording import Recording, open  # noqa: A004
from .report import Report
from .schema import Array, Layout, Nested, String, StringMap, Value, Vector
from .sequence import RecordSequence, Selection
from .standard import AudioLayout, ImageLayout, NextBlockLayout, VideoFrameLayout
from .stream import Stream

__all__ = [
    "Array",
    "AudioFormat",
    "AudioLayout",
    "AudioSpec",
    "Block",
    "Compression",
    "ContentBlock",
    "ContentType",
    "CustomSpec",
    "DataLayout",
    "ImageConversion",
    "ImageFormat",
    "ImageLayout",
    "ImageSpec",
    "Layout",
    "Nested",
    "NextBlockLayout",
    "PixelFormat",
    "Record",
    "RecordFormat",
    "RecordSequence",
    "RecordType",
    "Recording",
    "Report",
    "SampleFormat",
    "Selection",
    "Stream",
    "StreamId",
    "String",
    "StringMap",
    "Value",
    "Vector",
    "VideoFrameLayout",
    "image_planes",
    "open",
]
