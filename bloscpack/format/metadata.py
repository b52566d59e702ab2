"""Metadata section: any JSON value, optionally compressed, with room to grow.

::

    section = header(32) data padding digest

The digest covers the stored data and follows the padding (bloscpack 0.3.0 to 0.16.0). In the
original's format description it follows the data directly, so such a section is read too. Pure:
bytes in, values out.
"""

import json
import zlib  # not zlib-ng, which compresses to other bytes than 0.16
from collections.abc import Callable, Mapping
from contextlib import suppress
from struct import Struct
from typing import Any, NamedTuple

from ..exceptions import (
    ChecksumMismatch,
    FormatError,
    MetadataSectionTooSmall,
    TruncatedError,
    UnsupportedError,
)
from ..types import BytesLike
from .checksum import CHECKSUMS, LAST_V3_ID, Checksum, checksum_by_name

MAX_NDIM = 64  # of an array; numpy 2 has as many, numpy 1 has 32 and says so itself
METADATA_HEADER_SIZE = 8 + 1 + 1 + 1 + 1 + 4 + 4 + 4 + 8
MAX_METADATA_NBYTES = 2**32 - 1
JSON_MAGIC = b"JSON"
_STORED_MAGIC = b"JSON\0\0\0\0"

DEFAULT_META_CHECKSUM = "adler32"  # as in bloscpack 0.16

# Ids of the codecs, stored on disk.
META_CODECS = ("None", "zlib")

_HEADER = Struct("<8sBBBBIII8s")

# Limits of expansion: metadata of up to 16 MiB are free, larger ones may expand 64 times. Otherwise
# a 1.6 MB section of a hostile file could allocate 1.6 GB. `pack_section` stores data that compress
# better than this uncompressed, so that we can read everything we write.
_FREE_EXPANSION_NBYTES = 16 << 20
_MAX_EXPANSION = 64
# Largest number of values besides one per stored byte: otherwise 16 KB of "[[],[],..." could become
# a gigabyte of Python objects.
_FREE_VALUES = 1 << 18

# Data that are compressed with a small window, to the same bytes.
_SMALL_NBYTES = 512

_encode_json = json.JSONEncoder(separators=(",", ":")).encode
_decoder = json.JSONDecoder()


def encode_values(value: Any, what: str) -> str:
    """Return a value of the caller as compact JSON; numpy numbers and arrays are converted.

    Raises
    ------
    TypeError
        A value cannot be stored; the message names its place, such as ``attrs['a'][2]``.
    ValueError
        A list or mapping contains itself, or is nested too deeply.
    """
    with suppress(TypeError, ValueError, RecursionError):  # `json_values` says where
        encoded = _encode_json(value)
        if not _has_other_keys(value):
            return encoded
    return _encode_json(json_values(value, what))


def _has_other_keys(value: Any) -> bool:
    """Return whether a mapping in a JSON value has keys that are not text."""
    left = [value]
    while left:  # nested as deeply as the encoder allows
        one = left.pop()
        if isinstance(one, dict):
            if any(type(key) is not str for key in one):
                return True
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
    return False


def describes_array(metadata: Any) -> bool:
    """Return whether the metadata of a file are those of an array, not values of the caller."""
    return isinstance(metadata, dict) and metadata.get("container") == "numpy"


def json_values(value: Any, what: str) -> Any:
    """Return a copy of a value of the caller made of JSON values.

    Tuples and numpy arrays become lists, mappings dicts, and numpy numbers those of Python. Dates
    have no place in JSON: as a number they would lose their unit, and each reader would have to
    know the form of a text.

    Raises
    ------
    TypeError
        A value cannot be stored; the message names its place, such as ``attrs['a'][2]``.
    ValueError
        A list or mapping contains itself, or is nested too deeply.
    """
    try:
        return _plain(value, what)
    except RecursionError:
        raise ValueError(f"{what}: circular, or nested too deeply") from None


def attr_values(attrs: Any) -> dict[str, Any]:
    """Return a copy of the attrs of a caller made of JSON values; {} of None.

    Raises
    ------
    TypeError, ValueError
        They are not a mapping, or for the reasons of `json_values`.
    """
    if not isinstance(attrs, Mapping | None):
        raise TypeError(f"attrs must be a mapping, such as {{'unit': 'K'}}, not {attrs!r:.80}")
    return json_values(attrs or {}, "attrs")  # type: ignore[no-any-return]


def _plain(value: Any, where: str) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        found = {
            _key(key, where): _plain(one, f"{where}[{key!r:.80}]") for key, one in value.items()
        }
        texts = {key if isinstance(key, str) else _encode_json(key) for key in found}
        if len(texts) < len(value):
            raise TypeError(f"{where} has keys that are equal as text: {[*value]!r:.80}")
        return found
    if isinstance(value, list | tuple):
        return [_plain(one, f"{where}[{at}]") for at, one in enumerate(value)]
    # By its attributes, as modules of formats do not import numpy.
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    # The method `tolist` returns None for items under a mask.
    is_masked = hasattr(value, "mask") and bool(value.mask.any())
    if kind and kind not in "mM" and not is_masked and callable(getattr(value, "tolist", None)):
        found = value.tolist()
        if not hasattr(found, "dtype"):  # a long double is returned as it is
            return _plain(found, where)
    raise TypeError(
        f"{where} is not a JSON value: {type(value).__name__} {value!r:.80}{_advice(value, kind)}"
    )


def _key(key: Any, where: str) -> Any:
    if getattr(getattr(key, "dtype", None), "kind", "") in ("b", "i", "u", "f"):
        key = key.item()
    if key is None or isinstance(key, str | int | float):
        return key
    raise TypeError(f"{where} has the key {key!r:.80}, a {type(key).__name__}: keys must be text")


def _advice(value: Any, kind: str) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return "; decode it to text"
    if isinstance(value, set | frozenset):
        return "; store it as a list"
    if kind in ("m", "M"):
        return "; store it as text, such as numpy.datetime_as_string returns, or as numbers"
    return "; store it as text" if hasattr(value, "isoformat") else ""


class MetadataHeader(NamedTuple):
    """Header of the metadata section, 32 bytes."""

    magic_format: bytes  # serializer, ``b"JSON"``; NULs stripped
    meta_options: int
    meta_checksum: Checksum  # checksum of the stored data
    meta_codec: str  # ``"None"`` or ``"zlib"``
    meta_level: int  # 0 to 9; also stored if the data are not compressed after all
    # Size of the data in bytes: decoded, reserved, stored.
    meta_size: int
    max_meta_size: int
    meta_comp_size: int
    user_codec: bytes  # free for the user, 8 bytes; NULs stripped

    @property
    def section_size(self) -> int:
        """Size of the whole section in bytes."""
        return METADATA_HEADER_SIZE + self.max_meta_size + self.meta_checksum.nbytes

    def pack(self) -> bytes:
        """Return the 32 bytes of the header."""
        return _HEADER.pack(
            self.magic_format,
            self.meta_options,
            self.meta_checksum.id,
            META_CODECS.index(self.meta_codec),
            self.meta_level,
            self.meta_size,
            self.max_meta_size,
            self.meta_comp_size,
            self.user_codec,
        )

    @classmethod
    def unpack(
        cls, view: BytesLike, at: int = 0, *, last_checksum: int = LAST_V3_ID
    ) -> "MetadataHeader":
        """Unpack the header at position `at` of `view`.

        Raises
        ------
        TruncatedError
            The header is incomplete.
        FormatError
            A field is out of its range.
        UnsupportedError
            The serializer is not JSON.
        """
        if len(view) - at < METADATA_HEADER_SIZE:
            raise TruncatedError(
                f"metadata header: found {max(len(view) - at, 0)} of {METADATA_HEADER_SIZE} bytes",
                offset=at,
            )
        fields = _HEADER.unpack_from(view, at)
        magic, options, checksum, codec, level, size, reserved, stored, user = fields
        if magic != _STORED_MAGIC and magic.strip(b"\0") != JSON_MAGIC:
            raise UnsupportedError(
                f"metadata header: magic_format is {magic!r}, not {JSON_MAGIC!r}"
            )
        if checksum > last_checksum:
            raise FormatError(
                f"metadata header: meta_checksum {checksum} is not 0 to {last_checksum}",
                field="meta_checksum",
            )
        if codec >= len(META_CODECS):
            raise FormatError(
                f"metadata header: meta_codec {codec} is not 0 or 1", field="meta_codec"
            )
        if level > 9:
            raise FormatError(
                f"metadata header: meta_level {level} is not 0 to 9", field="meta_level"
            )
        if stored > reserved:
            raise FormatError(
                f"metadata header: meta_comp_size {stored} exceeds max_meta_size {reserved}",
                field="meta_comp_size",
            )
        if codec == 0 and size != stored:
            raise FormatError(
                f"metadata header: meta_size {size} differs from meta_comp_size {stored}, "
                "although the data are not compressed",
                field="meta_size",
            )
        if size > _FREE_EXPANSION_NBYTES and _expands_too_far(size, stored):
            raise FormatError(
                f"metadata header: meta_size {size} exceeds {_MAX_EXPANSION} times the {stored} "
                "stored bytes",
                field="meta_size",
            )
        values = (
            JSON_MAGIC,
            options,
            CHECKSUMS[checksum],
            META_CODECS[codec],
            level,
            size,
            reserved,
            stored,
            user.rstrip(b"\0"),
        )
        return tuple.__new__(cls, values)  # same as `_make`, but saves a call


def pack_section(
    metadata: Any,
    *,
    checksum: str | None = DEFAULT_META_CHECKSUM,
    codec: str = "zlib",
    level: int = 6,
    reserve: int | Callable[[int], int] | None = None,
) -> bytes:
    """Return the metadata section for a JSON value.

    Parameters
    ----------
    metadata : object
        Any value that ``json.dumps`` accepts.
    checksum, codec, level
        Names and level; data that do not become smaller are stored uncompressed.
    reserve : int or callable of the data's size, optional
        Bytes to reserve for the data; by default ten times their size, as in bloscpack 0.16.

    Raises
    ------
    TypeError, ValueError
        `metadata` is not a JSON value, or has keys that are equal as text.
    MetadataSectionTooSmall
        The data do not fit into `reserve`.
    """
    row = checksum_by_name(checksum)
    data = _encode_json(metadata).encode("ascii")
    if _has_other_keys(metadata):
        json_values(metadata, "metadata")  # raises if JSON has two keys of one text
    meta_size = len(data)
    if codec != META_CODECS[0]:
        compressed = _deflate(data, level)
        stored = len(compressed)
        too_good = _expands_too_far(meta_size, stored) or _has_too_many_values(data, stored)
        if stored > meta_size or too_good:  # 0.16 keeps a stream of equal size, too
            codec = META_CODECS[0]
        else:
            data = compressed
    reserved = 10 * meta_size if reserve is None else reserve
    if callable(reserved):
        reserved = reserved(meta_size)
    if not isinstance(reserved, int):
        raise TypeError(
            f"max_meta_size must be an int or a callable, not {type(reserved).__name__}"
        )
    if len(data) > reserved:
        raise MetadataSectionTooSmall(
            f"metadata: {len(data)} bytes do not fit into the {reserved} reserved"
        )
    if reserved > MAX_METADATA_NBYTES:
        raise ValueError(f"max_meta_size must be at most {MAX_METADATA_NBYTES}, not {reserved}")
    header = MetadataHeader(JSON_MAGIC, 0, row, codec, level, meta_size, reserved, len(data), b"")
    return b"".join((header.pack(), data, bytes(reserved - len(data)), row.digest(data)))


def stored_data(header: MetadataHeader, section: BytesLike) -> bytes:
    """Return the stored data of a whole section after comparing their checksum.

    Raises
    ------
    TruncatedError
        The section is incomplete.
    ChecksumMismatch
        The stored and the computed digests differ.
    """
    size = header.section_size
    if len(section) < size:
        raise TruncatedError(f"metadata: found {len(section)} of {size} bytes")
    section = bytes(section)  # slices of bytes compare faster than slices of memoryviews
    end = METADATA_HEADER_SIZE + header.meta_comp_size
    data = section[METADATA_HEADER_SIZE:end]
    row = header.meta_checksum
    if row.nbytes:
        actual = row.digest(data)
        expected = section[size - row.nbytes : size]
        if actual != expected and actual != section[end : end + row.nbytes]:
            raise ChecksumMismatch(
                f"metadata: {row.name} is {actual.hex()}, {expected.hex()} is stored",
                name=row.name,
                expected=expected,
                actual=actual,
            )
    return data


def decode_data(data: bytes, codec: str, nbytes: int) -> Any:
    """Decode metadata of `nbytes` decoded bytes from `data`, compressed with `codec`.

    Raises
    ------
    FormatError
        The data do not decompress to that size, or are not JSON.
    """
    if codec == "zlib":
        stored = len(data)
        data = _inflate(data, nbytes)
        if _has_too_many_values(data, stored):
            raise FormatError(f"metadata: too many values in {stored} stored bytes")
    try:
        return _decode_json(str(data, "utf-8"))
    except (ValueError, RecursionError) as err:
        raise FormatError(f"metadata: not JSON: {err}") from err


def _expands_too_far(nbytes: int, stored: int) -> bool:
    return nbytes > _FREE_EXPANSION_NBYTES and nbytes > stored * _MAX_EXPANSION


def _has_too_many_values(data: bytes, stored: int) -> bool:
    if len(data) <= _FREE_VALUES:
        return False
    # Every value except the outermost follows one of these characters.
    return sum(map(data.count, (b",", b"[", b"{"))) > _FREE_VALUES + stored


def _decode_json(text: str) -> Any:
    try:
        value, end = _decoder.raw_decode(text)
    except json.JSONDecodeError:
        end = -1
    # White space around the value, or an error: `decode` handles both.
    return value if end == len(text) else _decoder.decode(text)


def _deflate(data: bytes, level: int) -> bytes:
    """Return what ``zlib.compress`` does, which clears 256 KiB of tables first."""
    if level != 6 or len(data) > _SMALL_NBYTES:
        return zlib.compress(data, level)
    # No match in such data is out of the reach of a window of 1 KiB, and none of its blocks ends
    # early. Only the header of the stream would name the window.
    stream = zlib.compressobj(level, zlib.DEFLATED, -10, 4)
    return b"".join(
        (b"\x78\x9c", stream.compress(data), stream.flush(), zlib.adler32(data).to_bytes(4, "big"))
    )


def _inflate(data: bytes, nbytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # One byte more than declared, to detect data that are too long.
        result = stream.decompress(data, nbytes + 1)
    except zlib.error as err:
        raise FormatError(f"metadata: {err}") from err
    if len(result) != nbytes or not stream.eof:
        raise FormatError(f"metadata: does not decompress to the declared {nbytes} bytes")
    return result
