"""The names of ``gulpio2.adapters``: the eight adapters and their base classes."""

from .ingest.baseadapter import AbstractDatasetAdapter, Custom20BNAdapterMixin
from .ingest.imageadapters import Custom20BNCsvJpegAdapter, ImageFolderAdapter, ImageListAdapter
from .ingest.videoadapters import (
    ActivitynetAdapter,
    Custom20BNCsvWebmAdapter,
    Custom20BNJsonVideoAdapter,
    KineticsAdapter,
    VideoFolderAdapter,
)

__all__ = [
    "AbstractDatasetAdapter",
    "ActivitynetAdapter",
    "Custom20BNAdapterMixin",
    "Custom20BNCsvJpegAdapter",
    "Custom20BNCsvWebmAdapter",
    "Custom20BNJsonVideoAdapter",
    "ImageFolderAdapter",
    "ImageListAdapter",
    "KineticsAdapter",
    "VideoFolderAdapter",
]
