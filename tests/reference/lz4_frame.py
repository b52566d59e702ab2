"""Oracle: LZ4 frames and XXH32 in plain Python, by their specifications.

lz4_Frame_format.md 1.6.2 and lz4_Block_format.md of LZ4, xxhash_spec.md of xxHash.
"""

P1, P2, P3, P4, P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
MASK = 0xFFFFFFFF


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & MASK


def xxh32(data: bytes) -> int:
    """Return XXH32 with seed 0."""
    at = 0
    value = P5
    if len(data) >= 16:
        lanes = [P1 + P2 & MASK, P2, 0, -P1 & MASK]
        while len(data) - at >= 16:
            for k in range(4):
                word = int.from_bytes(data[at + 4 * k : at + 4 * k + 4], "little")
                lanes[k] = _rotated(lanes[k] + word * P2 & MASK, 13) * P1 & MASK
            at += 16
        value = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    value = value + len(data) & MASK
    for start in range(at, len(data) - 3, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        value = _rotated(value + word * P3 & MASK, 17) * P4 & MASK
    for byte in data[len(data) - len(data) % 4 :]:
        value = _rotated(value + byte * P5 & MASK, 11) * P1 & MASK
    value = (value ^ value >> 15) * P2 & MASK
    value = (value ^ value >> 13) * P3 & MASK
    return value ^ value >> 16


def decode(frame: bytes) -> bytes:
    """Return the content of a frame; ValueError or IndexError if it is not one valid frame."""
    flags, block_id = frame[4], frame[5]
    _check(frame[:4] == b"\x04\x22\x4d\x18" and flags >> 6 == 1, "header")
    at = 6 + 8 * (flags >> 3 & 1)
    _check(frame[at] == xxh32(frame[4:at]) >> 8 & 0xFF, "checksum of the header")
    at += 1
    out = bytearray()
    while size := int.from_bytes(frame[at : at + 4], "little"):
        block = frame[at + 4 : at + 4 + (size & 0x7FFFFFFF)]
        at += 4 + len(block)
        if flags & 0x10:
            _check(int.from_bytes(frame[at : at + 4], "little") == xxh32(block), "block checksum")
            at += 4
        start = len(out)
        if size >> 31:
            out += block
        else:
            _decode_block(block, out, start if flags & 0x20 else 0)
        _check(len(out) - start <= 1 << 2 * (block_id >> 4) + 8, "size of a block")
    at += 4
    if flags & 0x08:
        _check(int.from_bytes(frame[6:14], "little") == len(out), "size")
    if flags & 0x04:
        _check(int.from_bytes(frame[at : at + 4], "little") == xxh32(out), "checksum")
        at += 4
    _check(at == len(frame), "end")
    return bytes(out)


def _check(is_right: bool, what: str) -> None:
    if not is_right:
        raise ValueError(what)


def _decode_block(block: bytes, out: bytearray, first: int) -> None:
    """Append the content of a block, whose matches start at or after position `first` of `out`."""
    at = 0
    while True:
        token = block[at]
        at, nliterals = _length(block, at + 1, token >> 4)
        out += block[at : at + nliterals]
        at += nliterals
        if at == len(block):
            return
        offset = int.from_bytes(block[at : at + 2], "little")
        at, nmatch = _length(block, at + 2, token & 15)
        if not 0 < offset <= len(out) - first:
            raise ValueError("match")
        for _ in range(nmatch + 4):
            out.append(out[-offset])


def _length(block: bytes, at: int, value: int) -> tuple[int, int]:
    """Return the end of a length, and the length."""
    if value == 15:
        while True:
            value += block[at]
            at += 1
            if block[at - 1] != 255:
                break
    return at, value
