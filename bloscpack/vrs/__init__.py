"""VRS recordings: records of many sensors with time stamps, in streams that describe themselves."""

from .audio import AudioFormat, AudioSpec, SampleFormat
from .copying import CopyReport, copy
from .declaration import Audio, Custom, Image
from .format import Compression, RecordType, StreamId
from .layout import DataLayout
from .merging import merge
from .pixels import ImageConversion, ImageFormat, ImageSpec, PixelFormat, image_planes
from .pyvrs import (
    AsyncFilteredVRSReader,
    AsyncVRSReader,
    StreamNotFoundError,
    SyncFilteredVRSReader,
    SyncVRSReader,
    TimestampNotFoundError,
    VRSReaderSlice,
    VRSRecord,
)
from .record import Block, CustomSpec, Record
from .recordformat import ContentBlock, ContentType, RecordFormat
from .recording import Recording, open  # noqa: A004
from .repair import IndexRepair, fix_index
from .report import Report
from .schema import Array, Layout, Nested, String, StringMap, Value, Vector
from .sequence import RecordSequence, Selection
from .standard import AudioLayout, ImageLayout, NextBlockLayout, VideoFrameLayout
from .stream import Stream
from .streamwriter import StreamWriter
from .writer import Writer, create

__all__ = [
    "Array",
    "AsyncFilteredVRSReader",
    "AsyncVRSReader",
    "Audio",
    "AudioFormat",
    "AudioLayout",
    "AudioSpec",
    "Block",
    "Compression",
    "ContentBlock",
    "ContentType",
    "CopyReport",
    "Custom",
    "CustomSpec",
    "DataLayout",
    "Image",
    "ImageConversion",
    "ImageFormat",
    "ImageLayout",
    "ImageSpec",
    "IndexRepair",
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
    "StreamNotFoundError",
    "StreamWriter",
    "String",
    "StringMap",
    "SyncFilteredVRSReader",
    "SyncVRSReader",
    "TimestampNotFoundError",
    "VRSReaderSlice",
    "VRSRecord",
    "Value",
    "Vector",
    "VideoFrameLayout",
    "Writer",
    "copy",
    "create",
    "fix_index",
    "image_planes",
    "merge",
    "open",
]


def __dir__() -> list[str]:
    """List the public names, and none of the modules they are written in."""
    return sorted({*__all__, "pyvrs"} | {name for name in globals() if name.startswith("__")})
