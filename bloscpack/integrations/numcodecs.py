"""Codec of numcodecs for chunks of this package: array chunks, and Blosc chunks among them.

numcodecs finds it through the entry point ``bloscpack_array_chunk``, so Zarr decodes the chunks of
files saved with ``codec="auto"`` where this package is installed. A chunk is as in a file, but
without the digest behind it.
"""

from typing import Any

import numpy as np

from ..array.arraylike import as_array
from ..array.layout import auto_params, is_fortran, stored_bytes
from ..exceptions import CodecError
from ..format.codec import ChunkHeader, decode_into, encode
from ..parallel.imports import optional_library
from .zarrlayout import ARRAY_CHUNK_CODEC

with optional_library("numcodecs", "zarr"):
    from numcodecs.abc import Codec
    from numcodecs.compat import ensure_contiguous_ndarray, ensure_ndarray_like

__all__ = ["ArrayChunkCodec"]


class ArrayChunkCodec(Codec):  # type: ignore[misc]
    """Compression of arrays as by ``bloscpack.save(..., codec="auto")``; it has no parameters.

    Notes
    -----
    Safe from many threads. Zarr has no checksums for it: damage is found where it breaks the format
    of the chunk, and else gives wrong items.

    Examples
    --------
    >>> import numpy as np
    >>> from bloscpack.integrations.numcodecs import ArrayChunkCodec
    >>> codec = ArrayChunkCodec()
    >>> codec.get_config()
    {'id': 'bloscpack_array_chunk'}
    >>> chunk = codec.encode(np.arange(60_000, dtype="i4").reshape(200, 300))
    >>> len(chunk) < 1000
    True
    >>> int(np.frombuffer(codec.decode(chunk), "i4")[-1])
    59999
    """

    codec_id = ARRAY_CHUNK_CODEC

    def encode(self, buf: Any) -> bytes:
        """Compress an array to an array chunk, or to a Blosc chunk unless that is much larger.

        Parameters
        ----------
        buf : buffer-like
            The items. Their dtype, shape and order are used, so an array gives smaller chunks than
            its bytes.

        Returns
        -------
        bytes
            The chunk.

        Raises
        ------
        TypeError
            The items are Python objects (`ObjectNumpyArrayRejection`), or masked.
        ValueError
            The items have more than 2147483631 bytes.
        """
        items = np.asarray(as_array(ensure_ndarray_like(buf)))
        params = auto_params((items.dtype, items.shape, is_fortran(items)))
        return encode(stored_bytes(items), params)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decompress an array chunk or a Blosc chunk.

        Parameters
        ----------
        buf : buffer-like
            The whole chunk.
        out : writable buffer, optional
            Receives the items; must have exactly their size.

        Returns
        -------
        ndarray or buffer-like
            `out`, or its bytes in new memory. An array chunk of n bytes has at most
            ``8192 * n + 65536`` bytes decoded, a Blosc chunk ``65536 * n``.

        Raises
        ------
        FormatError, CodecError, UnsupportedError
            The chunk is damaged, of a later version, or does not decode to the size of `out`.
        """
        chunk = ensure_contiguous_ndarray(buf).view(np.uint8).data
        header = ChunkHeader.unpack(chunk)
        if header.cbytes != len(chunk):  # before memory is allocated by its decoded size
            raise CodecError(f"the chunk has {header.cbytes} bytes; got {len(chunk)}")
        if out is None:
            out = np.empty(header.nbytes, np.uint8)
        decode_into(chunk, ensure_contiguous_ndarray(out).view(np.uint8).data)
        return out
