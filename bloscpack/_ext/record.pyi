from typing import Any

import numpy as np

from bloscpack.types import BytesLike

_Offsets = np.ndarray[Any, np.dtype[np.int64]]
_Rows = np.ndarray[Any, np.dtype[np.uint8]]

LZ4: int
ZSTD: int
NOT_A_FRAME: int
CUT: int
TRAILING: int
WRONG_SIZE: int
BAD_BLOCK: int
WRONG_CHECKSUM: int
NEEDS_DICTIONARY: int
NO_MEMORY: int
NO_ROOM: int

def limit_of(codec: int, stored: BytesLike) -> int: ...
def decode_into(codec: int, stored: BytesLike, out: BytesLike) -> int: ...
def encode(codec: int, level: int, payload: BytesLike, room: int) -> bytes | int: ...
def gather(view: BytesLike, start: int, offsets: _Offsets, out: _Rows) -> int: ...
def gather_ragged(
    view: BytesLike, start: int, offsets: _Offsets, ends: _Offsets, out: _Rows
) -> int: ...
