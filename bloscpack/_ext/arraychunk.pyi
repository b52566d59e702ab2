from collections.abc import Iterable, Sequence

from bloscpack.types import BytesLike

DAMAGED_BLOCK: int
NO_MEMORY: int

class Kernel:
    nblocks: int
    def __init__(
        self,
        itemsize: int,
        shape: Sequence[int],
        block: Sequence[int],
        planes: Sequence[
            tuple[int, int, int, int, int, int, int, int, float, bytes, bytes],
        ],
        is_big_endian: bool = False,
    ) -> None: ...
    def decode_into(
        self,
        ends: BytesLike,
        stored: BytesLike,
        low: int,
        first: int,
        count: int,
        out: BytesLike,
    ) -> int: ...
    def encode(
        self,
        works: Sequence[BytesLike],
        masks: Sequence[BytesLike | None],
        items: Sequence[BytesLike | None],
        limit: int,
        blocks: Iterable[int] | None = None,
    ) -> tuple[bytes, list[int]] | None: ...

def predict_into(
    work: BytesLike,
    width: int,
    d: int,
    h: int,
    w: int,
    predictor: int,
    out: BytesLike,
) -> float: ...
def limit_vectors(most: int) -> int: ...
