"""Alias of `filtered` under pyvrs's module name."""

from .filtered import AsyncFilteredVRSReader, FilteredVRSReader, RecordFilter, SyncFilteredVRSReader

__all__ = ["AsyncFilteredVRSReader", "FilteredVRSReader", "RecordFilter", "SyncFilteredVRSReader"]
