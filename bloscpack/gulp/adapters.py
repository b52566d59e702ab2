"""What scripts import from ``gulpio2.adapters``: the eight adapters and what to inherit from."""

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
