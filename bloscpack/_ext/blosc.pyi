from bloscpack.wire import BytesLike

VERSION: str
CODECS: tuple[str, ...]
MAX_NBYTES: int
INVALID_CHUNK: int
WRONG_SIZE: int

def compress(
    src: BytesLike, typesize: int, clevel: int, shuffle: int, codec: bytes, blocksize: int
) -> bytes | int: ...
def decompress_into(chunk: BytesLike, out: BytesLike) -> int: ...
def decompress_items_into(chunk: BytesLike, start: int, nitems: int, out: BytesLike) -> int: ...
def new_bytes(nbytes: int) -> tuple[bytes, memoryview]: ...
