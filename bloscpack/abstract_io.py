"""Alias module of bloscpack 0.16: `pack` and `unpack` for the sources and sinks of `file_io`."""

from .original.streams import pack, unpack

__all__ = ["pack", "unpack"]
