"""Gulp directories, read and written: the names and the behaviour of GulpIO2."""

from ..version import __version__
from .fileio import ChunkWriter, GulpChunk, GulpDirectory, GulpIngestor

__all__ = ["ChunkWriter", "GulpChunk", "GulpDirectory", "GulpIngestor", "__version__"]
