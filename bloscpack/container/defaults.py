"""Defaults of what is written: codec, compression level, filter, and room to grow.

Everything that writes chunks takes them from here, for what the caller does not say.
"""

from ..format.codec import Shuffle

DEFAULT_CODEC = "zstd"
_DEFAULT_CLEVEL = {"zstd": 3, "lz4hc": 9}
# Spare entries per chunk of a file of known length, as in bloscpack 0.16: it can grow elevenfold.
_SPARE_PER_CHUNK = 10
SPARE_METADATA_NBYTES = 64


def default_clevel(codec: str) -> int:
    """Return the default compression level of a codec."""
    return _DEFAULT_CLEVEL.get(codec, 5)


def default_shuffle(typesize: int) -> Shuffle:
    """Return the default filter for items of this size."""
    return Shuffle.BYTE if typesize > 1 else Shuffle.NONE


def spare_entries(nchunks: int) -> int:
    """Return how many spare entries the offset table of a new file has."""
    return _SPARE_PER_CHUNK * nchunks
