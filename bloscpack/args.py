"""Alias module of bloscpack 0.16: argument classes, their defaults and `calculate_nchunks`."""

from .format.metadata import DEFAULT_META_CHECKSUM as DEFAULT_META_CHECKSUM
from .original.args import *  # noqa: F403
from .original.args import DEFAULT_BLOSC_ARGS as DEFAULT_BLOSC_ARGS
from .original.args import DEFAULT_BLOSCPACK_ARGS as DEFAULT_BLOSCPACK_ARGS
from .original.args import DEFAULT_METADATA_ARGS as DEFAULT_METADATA_ARGS
from .original.args import __all__ as __all__
