"""Alias module of bloscpack 0.16: appending to a file."""

from .original.append import _rewrite_metadata_fp as _rewrite_metadata_fp
from .original.append import _seek_to_metadata as _seek_to_metadata
from .original.append import append, append_fp, append_stream

__all__ = ["append", "append_fp", "append_stream"]
