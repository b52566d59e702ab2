"""Reading API of pyvrs (the PyPI package ``vrs``), implemented with `bloscpack.vrs`.

A script that reads with pyvrs changes one line: ``import bloscpack.vrs.pyvrs as pyvrs``.
"""

from ..block.audio import SampleFormat as AudioSampleFormat
from ..block.pixels import ImageConversion, ImageFormat, PixelFormat
from . import filter as filter  # noqa: A004 - pyvrs's name
from . import record as record
from . import slice as slice  # noqa: A004
from . import utils as utils
from .filespec import FileSpec
from .filtered import AsyncFilteredVRSReader, FilteredVRSReader, RecordFilter, SyncFilteredVRSReader
from .pyvrserrors import StreamNotFoundError, TimestampNotFoundError
from .pyvrserrors import type_name_of as recordable_type_id_name
from .reader import AsyncVRSReader, SyncVRSReader, VRSReader, records_checksum
from .record import VRSBlocks, VRSRecord
from .records import AsyncVRSReaderSlice, VRSReaderSlice
from .recordtype import RecordType
from .spec import AudioSpec, ContentBlock, ImageSpec

__all__ = [
    "AsyncFilteredVRSReader",
    "AsyncVRSReader",
    "AsyncVRSReaderSlice",
    "AudioSampleFormat",
    "AudioSpec",
    "ContentBlock",
    "FileSpec",
    "FilteredVRSReader",
    "ImageConversion",
    "ImageFormat",
    "ImageSpec",
    "PixelFormat",
    "RecordFilter",
    "RecordType",
    "StreamNotFoundError",
    "SyncFilteredVRSReader",
    "SyncVRSReader",
    "TimestampNotFoundError",
    "VRSBlocks",
    "VRSReader",
    "VRSReaderSlice",
    "VRSRecord",
    "recordable_type_id_name",
    "records_checksum",
]
