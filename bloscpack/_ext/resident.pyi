from bloscpack.types import AnyArray, BytesLike, IntArray

def copy(
    descriptor: int, mapped: BytesLike, starts: IntArray, nbytes: int, out: BytesLike | AnyArray
) -> int: ...
