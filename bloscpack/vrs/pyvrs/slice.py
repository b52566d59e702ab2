"""Alias of the slices in `records` under pyvrs's module name."""

from .records import AsyncVRSReaderSlice, VRSReaderSlice

__all__ = ["AsyncVRSReaderSlice", "VRSReaderSlice"]
