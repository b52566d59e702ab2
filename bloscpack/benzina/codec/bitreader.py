"""Bit reader for headers of video codecs: fixed-width numbers and Exp-Golomb codes.

Every read is checked against the available bytes. A code of more than 32 bits is an error, because
the standards allow no larger number.
"""

from ...exceptions import FormatError, TruncatedError

# ITU-T H.265 (11/2019), 9.2: leading zeros of the longest code whose number fits 32 bits.
_MAX_ZEROS = 32


class BitReader:
    """Reads bits, starting with the highest bit of the first byte.

    Parameters
    ----------
    data : bytes
        Bytes to read.
    what : str
        Name of the data in messages.
    """

    __slots__ = ("_data", "_nbits", "position", "what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._nbits = 8 * len(data)
        self.position = 0
        self.what = what

    def bits(self, count: int) -> int:
        """Return the next `count` bits as a number.

        Raises
        ------
        TruncatedError
            Fewer bits are left.
        """
        end = self.position + count
        if end > self._nbits:
            raise TruncatedError(f"{self.what}: {self._nbits} bits, but a field needs {end} bits")
        last = (end + 7) >> 3
        word = int.from_bytes(self._data[self.position >> 3 : last], "big")
        self.position = end
        return word >> (8 * last - end) & ((1 << count) - 1)

    def flag(self) -> bool:
        """Return the next bit."""
        return bool(self.bits(1))

    def skip(self, count: int) -> None:
        """Skip bits; raise `TruncatedError` if fewer are left."""
        if self.position + count > self._nbits:
            self.bits(count)
        self.position += count

    def unsigned(self, most: int, field: str) -> int:
        """Return an Exp-Golomb code, ue(v), with a value of at most `most`.

        Raises
        ------
        FormatError
            The value is larger.
        """
        zeros = 0
        while not self.bits(1):
            zeros += 1
            if zeros > _MAX_ZEROS:
                raise FormatError(f"{self.what}: {field} exceeds 32 bits", field=field)
        value = (1 << zeros) - 1 + (self.bits(zeros) if zeros else 0)
        if value > most:
            raise FormatError(
                f"{self.what}: {field} is {value}, at most {most} is allowed", field=field
            )
        return value

    def signed(self, field: str) -> int:
        """Return a signed Exp-Golomb code, se(v)."""
        value = self.unsigned((1 << 32) - 1, field)
        return (value + 1) >> 1 if value & 1 else -(value >> 1)


def unescape(unit: bytes) -> bytes:
    """Return the payload of a NAL unit, without emulation prevention bytes.

    ITU-T H.265 (11/2019), 7.3.1.1: a 3 after two zero bytes is not part of the payload.
    """
    return unit.replace(b"\0\0\3", b"\0\0")
