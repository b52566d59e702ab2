"""The names of ``gulpio2.fileio``."""

from .chunk import GulpChunk, extract_input_for_getitem
from .directory import GulpDirectory
from .format import ImgInfo
from .ingest import GulpIngestor
from .serializer import (
    AbstractSerializer,
    JSONSerializer,
    PickleSerializer,
    json_serializer,
    pickle_serializer,
)
from .utils import img_to_jpeg_bytes, jpeg_bytes_to_img
from .writer import ChunkWriter, calculate_chunk_slices

__all__ = [
    "AbstractSerializer",
    "ChunkWriter",
    "GulpChunk",
    "GulpDirectory",
    "GulpIngestor",
    "ImgInfo",
    "JSONSerializer",
    "PickleSerializer",
    "calculate_chunk_slices",
    "extract_input_for_getitem",
    "img_to_jpeg_bytes",
    "jpeg_bytes_to_img",
    "json_serializer",
    "pickle_serializer",
]
