"""Gulp directories, for reading and writing, with the names and behaviour of GulpIO2."""

from ..plugin import __version__
from .fileio import ChunkWriter, GulpChunk, GulpDirectory, GulpIngestor

__all__ = ["ChunkWriter", "GulpChunk", "GulpDirectory", "GulpIngestor", "__version__"]


def __dir__() -> list[str]:
    """List the public names, without the submodules."""
    modules = {"adapters", "fileio", "sanity_utils", "utils"} & globals().keys()
    return sorted({*__all__, *modules} | {name for name in globals() if name.startswith("__")})
