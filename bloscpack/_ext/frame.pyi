from bloscpack.types import BytesLike

PLANES: int
UP: int
LEFT: int
ZIGZAG: int
TIME: int
BITS: int

def encode(
    frame: BytesLike,
    reference: BytesLike | None,
    residuals: BytesLike,
    rows: int,
    width: int,
    channels: int,
    itemsize: int,
    flags: int,
) -> bool: ...
def decode(
    residuals: BytesLike,
    reference: BytesLike | None,
    frame: BytesLike,
    rows: int,
    width: int,
    channels: int,
    itemsize: int,
    flags: int,
) -> bool: ...
def pack(
    residuals: BytesLike, rows: int, width: int, channels: int, flags: int
) -> bytes | None: ...
def unpack(
    packed: BytesLike,
    reference: BytesLike | None,
    frame: BytesLike,
    rows: int,
    width: int,
    channels: int,
    flags: int,
) -> bool: ...
def limit_vectors(most: int) -> int: ...
