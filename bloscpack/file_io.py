"""Alias module of bloscpack 0.16: sources and sinks over file objects; packing files and bytes."""

from .original.api import (
    pack_bytes_file,
    pack_bytes_to_bytes,
    pack_bytes_to_file,
    pack_file,
    pack_file_to_file,
    unpack_bytes_file,
    unpack_bytes_from_bytes,
    unpack_bytes_from_file,
    unpack_file,
    unpack_file_from_file,
)
from .original.streams import CompressedFPSink, CompressedFPSource, PlainFPSink, PlainFPSource

__all__ = [
    "CompressedFPSink",
    "CompressedFPSource",
    "PlainFPSink",
    "PlainFPSource",
    "pack_bytes_file",
    "pack_bytes_to_bytes",
    "pack_bytes_to_file",
    "pack_file",
    "pack_file_to_file",
    "unpack_bytes_file",
    "unpack_bytes_from_bytes",
    "unpack_bytes_from_file",
    "unpack_file",
    "unpack_file_from_file",
]
