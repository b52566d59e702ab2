from bloscpack.types import BytesLike

_Track = tuple[
    str,
    bytes,
    bytes,
    int,
    int,
    bytes,
    bytes,
    tuple[int, int],
    tuple[int, int, int, int],
    str,
]

BOX_CUT: int
BOX_SMALL: int
BOX_LONG: int
NO_MOOV: int
NO_TABLE: int
TABLE_LONG: int
NOT_ONE: int
OUTSIDE: int
SAME_NAME: int
SHORT: int
BAD_APERTURE: int
NO_REFERENCE: int
ELSEWHERE: int

def parse_sample(data: BytesLike) -> tuple[int, int, tuple[bytes, ...], dict[str, _Track]]: ...
