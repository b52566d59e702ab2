"""VRS recordings: records of many sensors with time stamps, in streams that describe themselves."""

from .content import Audio, Custom, Image
from .layout import DataLayout
from .schema import Array, Layout, Nested, String, StringMap, Value, Vector
from .standard import AudioLayout, ImageLayout, NextBlockLayout, VideoFrameLayout
from .streamwriter import StreamWriter
from .writer import Writer, create

__all__ = [
    "Array",
    "Audio",
    "AudioLayout",
    "Custom",
    "DataLayout",
    "Image",
    "ImageLayout",
    "Layout",
    "Nested",
    "NextBlockLayout",
    "StreamWriter",
    "String",
    "StringMap",
    "Value",
    "Vector",
    "VideoFrameLayout",
    "Writer",
    "create",
]
