"""VRS recordings: timestamped records of many sensors, in self-describing streams."""

from .block.audio import AudioFormat, AudioSpec, SampleFormat
from .block.pixels import ImageConversion, ImageFormat, ImageSpec, PixelFormat, image_planes
from .edit.copying import CopyReport, copy
from .edit.indexrepair import IndexRepair, fix_index
from .edit.merging import merge
from .format.format import Compression, RecordType, StreamId
from .format.recordformat import ContentBlock, ContentType, RecordFormat
from .layout.datalayout import DataLayout
from .layout.schema import Array, Layout, Nested, String, StringMap, Value, Vector
from .layout.standard import AudioLayout, ImageLayout, NextBlockLayout, VideoFrameLayout
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
from .read.openreport import Report
from .read.record import Block, CustomSpec, Record
from .recording import Recording, open  # noqa: A004
from .sequence import RecordSequence, Selection
from .stream import Stream
from .write.declaration import Audio, Custom, Image
from .write.streamwriter import StreamWriter
from .write.writer import Writer, create

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
    """List the public names only, without the modules that define them."""
    return sorted({*__all__, "pyvrs"} | {name for name in globals() if name.startswith("__")})
