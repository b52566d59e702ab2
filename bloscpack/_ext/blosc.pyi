from bloscpack.types import BytesLike

VERSION: str
CODECS: tuple[str, ...]
MAX_NBYTES: int
INVALID_CHUNK: int
WRONG_SIZE: int
NO_MEMORY: int

def compress(
    src: BytesLike,
    typesize: int,
    clevel: int,
    shuffle: int,
    codec: bytes,
    blocksize: int,
    residual: bool,
) -> bytes | int: ...
def decompress_into(chunk: BytesLike, out: BytesLike) -> int: ...
def decompress_range_into(chunk: BytesLike, start: int, out: BytesLike) -> int: ...
def extent_of_range(head: BytesLike, start: int, stop: int) -> tuple[int, int] | None: ...
def decompress_blocks_into(
    head: BytesLike, stored: BytesLike, low: int, start: int, out: BytesLike
) -> int: ...
def new_bytes(nbytes: int) -> tuple[bytes, memoryview]: ...
