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
        matches_wait: int = 0,
    ) -> tuple[bytes, list[int]] | None: ...

def facts_of(items: BytesLike, itemsize: int, kind: int) -> tuple[int, int, int]: ...
def order_into(
    items: BytesLike,
    itemsize: int,
    kind: int,
    shift: int,
    offset: int,
    out: BytesLike,
    width: int,
) -> None: ...
def quotients_into(
    items: BytesLike, itemsize: int, divisor: float, out: BytesLike, mask: BytesLike
) -> tuple[int, int, int]: ...
def places_into(items: BytesLike, itemsize: int, out: BytesLike, entries: BytesLike) -> int: ...
def estimate_predictors(
    works: BytesLike, width: int, d: int, h: int, w: int, predictors: Sequence[int]
) -> list[float]: ...
def entropy_of_bytes(integers: BytesLike, width: int) -> float: ...
def bins_of(
    residuals: BytesLike, width: int, choices: Sequence[int]
) -> list[tuple[float, bytes]]: ...
def predict_into(
    work: BytesLike,
    width: int,
    d: int,
    h: int,
    w: int,
    predictor: int,
    out: BytesLike,
) -> None: ...
def limit_vectors(most: int) -> int: ...
