"""Filtered readers, by pyvrs's name of the module."""

from .filtered import AsyncFilteredVRSReader, FilteredVRSReader, RecordFilter, SyncFilteredVRSReader

__all__ = ["AsyncFilteredVRSReader", "FilteredVRSReader", "RecordFilter", "SyncFilteredVRSReader"]
