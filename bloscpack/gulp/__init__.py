"""Gulp directories, read and written: the names and the behaviour of GulpIO2."""

from ..version import __version__
from .fileio import ChunkWriter, GulpChunk, GulpDirectory, GulpIngestor

__all__ = ["ChunkWriter", "GulpChunk", "GulpDirectory", "GulpIngestor", "__version__"]


def __dir__() -> list[str]:
    """List the public names, and none of the modules they are written in."""
    modules = {"adapters", "fileio", "sanity_utils", "utils"} & globals().keys()
    return sorted({*__all__, *modules} | {name for name in globals() if name.startswith("__")})
