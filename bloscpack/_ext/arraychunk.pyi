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
    def encode_chunk(
        self,
        works: Sequence[BytesLike],
        masks: Sequence[BytesLike | None],
        items: Sequence[BytesLike | None],
        head: bytes,
        table: int,
        limit: int,
        matches_wait: int = 0,
    ) -> bytes | None: ...
    def encoded_size(
        self, works: Sequence[BytesLike], limit: int, matches_wait: int = 0
    ) -> int: ...

def is_ascending(values: bytes, width: int) -> bool: ...
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
def bins_of_blocks(
    work: BytesLike,
    width: int,
    d: int,
    h: int,
    w: int,
    predictor: int,
    step: int,
    choices: Sequence[int],
    out: BytesLike,
) -> list[tuple[float, bytes]]: ...
def sample_into(
    items: BytesLike,
    itemsize: int,
    kind: int,
    step: int,
    drawn: BytesLike,
    ordered: BytesLike,
) -> tuple[int, int, int]: ...
def common_divisor(
    sample: BytesLike, items: BytesLike, itemsize: int, kind: int, least: int
) -> int: ...
def divisor_of(
    floats: BytesLike,
    itemsize: int,
    divisors: Sequence[float],
    few: int,
    share_of_few: float,
    share: float,
) -> float | None: ...
def boxes_into(
    items: BytesLike,
    itemsize: int,
    shape: Sequence[int],
    starts: Sequence[Sequence[int]],
    sides: Sequence[int],
    out: BytesLike,
) -> None: ...
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
