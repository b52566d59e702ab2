"""Slices of readers, by pyvrs's name of the module."""

from .records import AsyncVRSReaderSlice, VRSReaderSlice

__all__ = ["AsyncVRSReaderSlice", "VRSReaderSlice"]
