"""Layout of an archive: several named Bloscpack files, its members, in one file.

::

    archive = header(64) metadata-section part* index
    part    = record (file | chunk)
    record  = 40 bytes, (name | directory)
    index   = record* tail(40)

A member is a part of its own, or small members that follow one another are a bundle: their files,
compressed together to one chunk, with a directory of their names and sizes in the record.

Each name stands twice, in front of its member and in the index, so that a damaged index can be
rebuilt from the records. Parts are adjacent: a record begins where the part before it ends, and
the index where the last part ends. So no two members overlap, and every byte has an owner.

Pure: bytes in, values out. Layout: docs/formats/archive.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

from xxhash import xxh3_64_digest

from ..exceptions import (
    ChecksumMismatch,
    CodecError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from ..types import BytesLike
from .bytefield import unpack_fields
from .checksum import checksum_by_name
from .codec import (
    CHUNK_HEADER_SIZE,
    ChunkHeader,
    CodecParams,
    Shuffle,
    decode,
    encode,
)
from .header import FEATURE_ARCHIVE, MAX_HEADER_SIZE, Header, unpack_header_of
from .metadata import attr_values, pack_section

CONTAINER = "archive"
RECORD_MAGIC = b"BLPKMEMB"
INDEX_MAGIC = b"BLPKARCH"
# A search for records digests a name at every position that looks like one, so names are short.
MAX_NAME_NBYTES = 4096
# Decoded size of a bundle: reading a member decodes all of them, and damage loses all of them.
MAX_BUNDLE_NBYTES = 32 << 10

_CHECKSUM = "xxh3_64"
_VERSION = 1
_DIGEST_SIZE = 8
# magic, offset of the record, bytes of the file, bytes of the name, kind, XXH3; of a bundle, the
# bytes of its chunk and of its directory
_RECORD = Struct("<8sQQII8s")
_MEMBER, _BUNDLE = 0, 1
RECORD_SIZE = 8 + 8 + 8 + 4 + 4 + 8
# magic, version, zero, members, offset of the index, bytes of the index, XXH3
_TAIL = Struct("<8sHHIQQ8s")
INDEX_TAIL_SIZE = 8 + 2 + 2 + 4 + 8 + 8 + 8
# Directory of a bundle: XXH3 of the chunk, bytes of all files; a chunk of rows follows.
_DIRECTORY = Struct("<8sI")
# Row: bytes of the file, bytes of the name, which follows.
_ROW = Struct("<HH")
# A directory is at most as large as a name, also if it cannot be compressed.
MAX_ROWS_NBYTES = MAX_NAME_NBYTES - _DIRECTORY.size - CHUNK_HEADER_SIZE


class Member(NamedTuple):
    """Member of an archive that is a part of its own.

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

    @property
    def part(self) -> "Member":
        """The part that holds it."""
        return self

    def members(self) -> Sequence["Member"]:
        """Return the members of the part."""
        return (self,)

    def pack(self) -> bytes:
        """Return the bytes of the record."""
        return _pack_record(self.at, self.nbytes, self.name.encode(), _MEMBER)


class Bundle(NamedTuple):
    """Part of an archive that holds several small members.

    Attributes
    ----------
    at : int
        Offset of its record.
    nbytes : int
        Size of its chunk in bytes.
    directory : bytes
        Digest of the chunk, and the sizes and names of the members, compressed.
    """

    at: int
    nbytes: int
    directory: bytes

    @property
    def offset(self) -> int:
        """Offset of its chunk."""
        return self.at + RECORD_SIZE + len(self.directory)

    @property
    def end(self) -> int:
        """Offset of the first byte behind it."""
        return self.offset + self.nbytes

    def members(self) -> Sequence["Bundled"]:
        """Return the members, in order.

        Raises
        ------
        FormatError
            The directory is not valid.
        """
        what = f"directory of the bundle at offset {self.at}"
        total = unpack_fields(_DIRECTORY, self.directory, 0, what)[1]
        rows = _decoded(self.directory[_DIRECTORY.size :], MAX_NAME_NBYTES, what)
        found: list[Bundled] = []
        at = start = 0
        while at < len(rows):
            nbytes, name_nbytes = unpack_fields(_ROW, rows, at, what)
            at += _ROW.size + name_nbytes
            found.append(Bundled(_text(rows[at - name_nbytes : at]), self, start, nbytes))
            start += nbytes
        if at != len(rows) or start != total or start > MAX_BUNDLE_NBYTES:
            raise FormatError(f"{what}: files of {start} bytes, {total} are declared")
        return found

    def pack(self) -> bytes:
        """Return the bytes of the record."""
        return _pack_record(self.at, self.nbytes, self.directory, _BUNDLE)

    def files(self, chunk: BytesLike) -> bytes:
        """Return the files of all members, one after the other, from the chunk.

        Raises
        ------
        FormatError
            The chunk is damaged or truncated.
        """
        what = f"bundle at offset {self.at}"
        expected, total = _DIRECTORY.unpack_from(self.directory)
        _check_digest(what, chunk, expected, self.offset)
        files = _decoded(chunk, MAX_BUNDLE_NBYTES, what)
        if len(files) != total:
            raise FormatError(f"{what}: {len(files)} bytes of files, {total} are declared")
        return files


class Bundled(NamedTuple):
    """Member of an archive in a bundle.

    Attributes
    ----------
    name : str
        Its name.
    part : Bundle
        The part that holds it.
    start : int
        Position of its file in those of the bundle.
    nbytes : int
        Size of its file in bytes.
    """

    name: str
    part: Bundle
    start: int
    nbytes: int

    def file(self, files: bytes) -> bytes:
        """Return its file from those of the bundle."""
        return files[self.start : self.start + self.nbytes]


def pack_bundle(at: int, files: Mapping[str, bytes]) -> tuple[Bundle, bytes]:
    """Return a bundle of the files of members, and its chunk; its record is at offset `at`."""
    rows = [_ROW.pack(len(files[name]), len(name.encode())) + name.encode() for name in files]
    content = b"".join(files.values())
    # LZ4 finds what files have in common in a tenth of the time of Zstandard.
    params = CodecParams("lz4", 9, Shuffle.NONE, 1, 1 << 16)
    chunk = encode(content, params)
    fields = _DIRECTORY.pack(xxh3_64_digest(chunk), len(content))
    return Bundle(at, len(chunk), fields + encode(b"".join(rows), params)), chunk


def row_nbytes(name: str) -> int:
    """Return the size of the row of a member in the directory of a bundle."""
    return _ROW.size + len(name.encode())


def unpack_record(view: BytesLike, start: int = 0) -> Member | Bundle:
    """Unpack the record at position `start` of `view`.

    Raises
    ------
    FormatError
        It is damaged or truncated, or the name is not UTF-8.
    """
    fields = unpack_fields(_RECORD, view, start, "record of a member")
    magic, at, nbytes, name_nbytes, kind, digest = fields
    if magic != RECORD_MAGIC or name_nbytes > MAX_NAME_NBYTES:
        raise FormatError(f"record of a member: magic {magic!r}, name of {name_nbytes} bytes")
    head_end = start + RECORD_SIZE - _DIGEST_SIZE
    name = bytes(view[start + RECORD_SIZE : start + RECORD_SIZE + name_nbytes])
    if xxh3_64_digest(bytes(view[start:head_end]) + name) != digest:
        raise FormatError("record of a member: the digest differs")
    if kind == _BUNDLE:
        return Bundle(at, nbytes, name)
    if kind != _MEMBER:
        raise UnsupportedError(f"record of a member: kind {kind} is not known")
    return Member(_text(name), at, nbytes)


def _pack_record(at: int, nbytes: int, name: bytes, kind: int) -> bytes:
    head = _RECORD.pack(RECORD_MAGIC, at, nbytes, len(name), kind, b"")
    return head[:-_DIGEST_SIZE] + xxh3_64_digest(head[:-_DIGEST_SIZE] + name) + name


def _check_digest(what: str, data: BytesLike, expected: bytes, offset: int) -> None:
    digest = xxh3_64_digest(data)
    if digest != expected:
        raise ChecksumMismatch(
            f"{what}: digest is {digest.hex()}, {expected.hex()} is stored",
            name=_CHECKSUM,
            expected=expected,
            actual=digest,
            offset=offset,
        )


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as err:
        raise FormatError(f"record of a member: the name is not UTF-8: {err}") from err


def _decoded(chunk: BytesLike, limit: int, what: str) -> bytes:
    """Return the content of a Blosc chunk of at most `limit` bytes."""
    try:
        header = ChunkHeader.unpack(chunk)
        content = decode(chunk, min(header.nbytes, limit))
    except (FormatError, CodecError) as err:
        raise FormatError(f"{what}: {err.args[0]}") from err
    if header.is_array:
        raise FormatError(f"{what}: an array chunk, not a Blosc chunk")
    return content


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
        {"container": CONTAINER, "attrs": attr_values(attrs)},
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
    nparts : int
        Number of parts.
    offset, nbytes : int
        Extent of the index, with the tail.
    """

    version: int
    nparts: int
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
        _, version, _, nparts, offset, nbytes, _ = unpack_fields(_TAIL, view, start, "index")
        smallest = INDEX_TAIL_SIZE + RECORD_SIZE * nparts
        if offset < MAX_HEADER_SIZE or nbytes < smallest or offset + nbytes != file_size:
            raise FormatError(
                f"index: {nbytes} bytes at offset {offset} with {nparts} parts do not fit into "
                f"a file of {file_size} bytes",
                offset=file_size - INDEX_TAIL_SIZE,
            )
        return cls(version, nparts, offset, nbytes)


def pack_index(parts: Iterable[Member | Bundle], offset: int) -> bytes:
    """Return the index of an archive, which begins at `offset`."""
    records = [part.pack() for part in parts]
    content = b"".join(records)
    nbytes = len(content) + INDEX_TAIL_SIZE
    tail = _TAIL.pack(INDEX_MAGIC, _VERSION, 0, len(records), offset, nbytes, b"")
    content += tail[:-_DIGEST_SIZE]
    return content + xxh3_64_digest(content)


def unpack_index(view: BytesLike, tail: IndexTail) -> dict[str, Member | Bundled]:
    """Unpack a whole index; return the members by name, in the order of the file.

    Raises
    ------
    FormatError
        It is damaged; or members overlap, leave a gap, or have the same name.
    UnsupportedError
        Its version is unknown.
    """
    _check_digest("index", view[:-_DIGEST_SIZE], bytes(view[-_DIGEST_SIZE:]), tail.offset)
    if tail.version != _VERSION:
        raise UnsupportedError(f"index: version {tail.version}, expected {_VERSION}")
    members: dict[str, Member | Bundled] = {}
    nparts, end = 0, None
    for part in _iter_records(view[:-INDEX_TAIL_SIZE]):
        if part.at < MAX_HEADER_SIZE or end not in (None, part.at):
            raise FormatError(
                f"index: record {nparts} is at {part.at}, but the member before it ends at {end}"
            )
        for member in part.members():
            if member.name in members:
                raise FormatError(f"index: two members have the name {member.name!r:.80}")
            members[member.name] = member
        nparts += 1
        end = part.end
    if nparts != tail.nparts or end not in (None, tail.offset):
        raise FormatError(
            f"index: {nparts} members and bundles that end at {end}, expected {tail.nparts} that "
            f"end at {tail.offset}"
        )
    return members


def _iter_records(view: BytesLike) -> Iterator[Member | Bundle]:
    position = 0
    while position < len(view):
        part = unpack_record(view, position)
        position += part.offset - part.at
        yield part
