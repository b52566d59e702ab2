"""VRS recordings: records of many sensors with time stamps, in streams that describe themselves."""

from .layout import DataLayout
from .schema import Array, Layout, Nested, String, StringMap, Value, Vector
from .standard import AudioLayout, ImageLayout, NextBlockLayout, VideoFrameLayout

__all__ = [
    "Array",
    "AudioLayout",
    "DataLayout",
    "ImageLayout",
    "Layout",
    "Nested",
    "NextBlockLayout",
    "String",
    "StringMap",
    "Value",
    "Vector",
    "VideoFrameLayout",
]
