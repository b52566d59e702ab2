from bloscpack.types import BytesLike, IntArray

def copy(
    descriptor: int, mapped: BytesLike, starts: IntArray, nbytes: int, out: BytesLike
) -> int: ...
