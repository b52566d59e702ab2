"""The names of ``gulpio2.fileio``."""

from .chunk.chunkfile import GulpChunk, extract_input_for_getitem
from .chunk.format import ImgInfo
from .chunk.serializer import (
    AbstractSerializer,
    JSONSerializer,
    PickleSerializer,
    json_serializer,
    pickle_serializer,
)
from .directory import GulpDirectory
from .ingest.chunkwriter import ChunkWriter, calculate_chunk_slices
from .ingest.ingestor import GulpIngestor
from .utils import img_to_jpeg_bytes, jpeg_bytes_to_img

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
