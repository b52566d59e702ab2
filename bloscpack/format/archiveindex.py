"""Layout of an archive: several named Bloscpack files, its members, in one file.

::

    archive = header(64) metadata-section member* index
    member  = record file
    record  = 40 bytes, name
    index   = record* tail(40)

Each name stands twice, in front of its member and in the index, so that a damaged index can be
rebuilt from the records. Members are adjacent: a record begins where the member before it ends, and
the index where the last member ends. So no two members overlap, and every byte has an owner.

Pure: bytes in, values out. Layout: docs/formats/archive.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import Any, NamedTuple

from xxhash import xxh3_64_digest

from ..exceptions import ChecksumMismatch, FormatError, TruncatedError, UnsupportedError
from ..types import BytesLike
from .bytefield import unpack_fields
from .checksum import checksum_by_name
from .header import FEATURE_ARCHIVE, MAX_HEADER_SIZE, Header, unpack_header_of
from .metadata import json_values, pack_section

CONTAINER = "archive"
RECORD_MAGIC = b"BLPKMEMB"
INDEX_MAGIC = b"BLPKARCH"
# A search for records digests a name at every position that looks like one, so names are short.
MAX_NAME_NBYTES = 4096

_CHECKSUM = "xxh3_64"
_VERSION = 1
_DIGEST_SIZE = 8
# magic, offset of the record, bytes of the member, bytes of the name, zero, XXH3
_RECORD = Struct("<8sQQII8s")
RECORD_SIZE = 8 + 8 + 8 + 4 + 4 + 8
# magic, version, zero, members, offset of the index, bytes of the index, XXH3
_TAIL = Struct("<8sHHIQQ8s")
INDEX_TAIL_SIZE = 8 + 2 + 2 + 4 + 8 + 8 + 8


class Member(NamedTuple):
    """Member of an archive.

    Attributes
    ----------
    name : str
        Its name, any text of up to 4096 bytes.
    at : int
        Offset of its record.
    nbytes : int
        Size of its file in bytes.
    """

    name: str
    at: int
    nbytes: int

    @property
    def offset(self) -> int:
        """Offset of its file."""
        return self.at + RECORD_SIZE + len(self.name.encode())

    @property
    def end(self) -> int:
        """Offset of the first byte behind it."""
        return self.offset + self.nbytes

    def pack(self) -> bytes:
        """Return the bytes of the record."""
        name = self.name.encode()
        head = _RECORD.pack(RECORD_MAGIC, self.at, self.nbytes, len(name), 0, b"")
        return head[:-_DIGEST_SIZE] + xxh3_64_digest(head[:-_DIGEST_SIZE] + name) + name

    @classmethod
    def unpack(cls, view: BytesLike, start: int = 0) -> "Member":
        """Unpack the record at position `start` of `view`.

        Raises
        ------
        FormatError
            It is damaged or truncated, or the name is not UTF-8.
        """
        fields = unpack_fields(_RECORD, view, start, "record of a member")
        magic, at, nbytes, name_nbytes, _, digest = fields
        if magic != RECORD_MAGIC or name_nbytes > MAX_NAME_NBYTES:
            raise FormatError(f"record of a member: magic {magic!r}, name of {name_nbytes} bytes")
        head_end = start + RECORD_SIZE - _DIGEST_SIZE
        name = bytes(view[start + RECORD_SIZE : start + RECORD_SIZE + name_nbytes])
        if xxh3_64_digest(bytes(view[start:head_end]) + name) != digest:
            raise FormatError("record of a member: the digest differs")
        try:
            return cls(name.decode(), at, nbytes)
        except UnicodeDecodeError as err:
            raise FormatError(f"record of a member: the name is not UTF-8: {err}") from err


def check_name(name: Any) -> str:
    """Return the name of a member.

    Raises
    ------
    TypeError, ValueError
        It is not text, cannot be stored as UTF-8, or is too long.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of an array must be a str, not {name!r:.80}")
    try:
        nbytes = len(name.encode())
    except UnicodeEncodeError as err:
        raise ValueError(f"the name of an array must be Unicode text: {err}") from None
    if nbytes > MAX_NAME_NBYTES:
        raise ValueError(
            f"the name {name[:40]!r}... has {nbytes} bytes; the limit is {MAX_NAME_NBYTES}"
        )
    return str(name)  # of numpy's text, too, which is a str


def archive_header() -> Header:
    """Return the header of every archive."""
    return Header(4, False, True, checksum_by_name(_CHECKSUM), 0, 0, 0, 0, 0, FEATURE_ARCHIVE)


def unpack_archive_header(view: BytesLike) -> None:
    """Check the header of an archive; raises as `unpack_header_of` does."""
    if unpack_header_of(view, FEATURE_ARCHIVE, "an archive") != archive_header():
        raise FormatError("header: not that of an archive")


def pack_archive_front(attrs: Mapping[str, Any]) -> bytes:
    """Return the header and the metadata section of an archive.

    Raises
    ------
    TypeError, ValueError
        `attrs` are not JSON values.
    """
    # Not compressed, so that the bytes do not depend on the zlib version; the section never grows.
    section = pack_section(
        {"container": CONTAINER, "attrs": json_values(dict(attrs), "attrs")},
        checksum=_CHECKSUM,
        codec="None",
        level=0,
        reserve=lambda nbytes: nbytes,
    )
    return archive_header().pack() + section


class IndexTail(NamedTuple):
    """Last bytes of an archive.

    Attributes
    ----------
    version : int
        Version of the index, to be trusted only after its digest has been compared.
    nmembers : int
        Number of members.
    offset, nbytes : int
        Extent of the index, with the tail.
    """

    version: int
    nmembers: int
    offset: int
    nbytes: int

    @classmethod
    def unpack(cls, view: BytesLike, file_size: int) -> "IndexTail":
        """Unpack the tail at the end of `view`, the last bytes of a file.

        Raises
        ------
        TruncatedError
            There is none: the end of the file is missing, or it is not an archive.
        FormatError
            The index cannot be where the tail says.
        """
        start = max(len(view) - INDEX_TAIL_SIZE, 0)
        if view[start : start + len(INDEX_MAGIC)] != INDEX_MAGIC:
            raise TruncatedError("index: it is missing, so the end of the file was cut off")
        _, version, _, nmembers, offset, nbytes, _ = unpack_fields(_TAIL, view, start, "index")
        smallest = INDEX_TAIL_SIZE + RECORD_SIZE * nmembers
        if offset < MAX_HEADER_SIZE or nbytes < smallest or offset + nbytes != file_size:
            raise FormatError(
                f"index: {nbytes} bytes at offset {offset} with {nmembers} members do not fit into "
                f"a file of {file_size} bytes",
                offset=file_size - INDEX_TAIL_SIZE,
            )
        return cls(version, nmembers, offset, nbytes)


def pack_index(members: Iterable[Member], offset: int) -> bytes:
    """Return the index of an archive, which begins at `offset`."""
    records = [member.pack() for member in members]
    content = b"".join(records)
    nbytes = len(content) + INDEX_TAIL_SIZE
    tail = _TAIL.pack(INDEX_MAGIC, _VERSION, 0, len(records), offset, nbytes, b"")
    content += tail[:-_DIGEST_SIZE]
    return content + xxh3_64_digest(content)


def unpack_index(view: BytesLike, tail: IndexTail) -> dict[str, Member]:
    """Unpack a whole index; return the members by name, in the order of the file.

    Raises
    ------
    FormatError
        It is damaged; or members overlap, leave a gap, or have the same name.
    UnsupportedError
        Its version is unknown.
    """
    digest, expected = xxh3_64_digest(view[:-_DIGEST_SIZE]), bytes(view[-_DIGEST_SIZE:])
    if digest != expected:
        raise ChecksumMismatch(
            f"index: digest is {digest.hex()}, {expected.hex()} is stored",
            name=_CHECKSUM,
            expected=expected,
            actual=digest,
            offset=tail.offset,
        )
    if tail.version != _VERSION:
        raise UnsupportedError(f"index: version {tail.version}, expected {_VERSION}")
    members: dict[str, Member] = {}
    end = None
    for member in _iter_records(view[:-INDEX_TAIL_SIZE]):
        if member.at < MAX_HEADER_SIZE or end not in (None, member.at):
            raise FormatError(
                f"index: the record of member {member.name!r:.80} is at {member.at}, but the "
                f"member before it ends at {end}"
            )
        if member.name in members:
            raise FormatError(f"index: two members have the name {member.name!r:.80}")
        members[member.name] = member
        end = member.end
    if len(members) != tail.nmembers or end not in (None, tail.offset):
        raise FormatError(
            f"index: {len(members)} members that end at {end}, expected {tail.nmembers} that end "
            f"at {tail.offset}"
        )
    return members


def _iter_records(view: BytesLike) -> Iterator[Member]:
    position = 0
    while position < len(view):
        member = Member.unpack(view, position)
        position += member.offset - member.at
        yield member
