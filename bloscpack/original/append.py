"""Appending to a file, under the names of bloscpack 0.16."""

import io
import os
import stat
from collections.abc import Mapping
from math import prod
from typing import IO, Any

from ..array.arraymetadata import check_nbytes, unpack_array_metadata
from ..container.reader import Container
from ..exceptions import (
    ChecksumLengthMismatch,
    NoChangeInMetadata,
    NoMetadataFound,
    NoSuchChecksum,
    NoSuchCodec,
    NoSuchSerializer,
    NotANumpyArray,
)
from ..format.checksum import checksum_by_name
from ..format.codec import CodecParams
from ..format.header import version_for
from ..format.rounding import Rounding
from ..storage.file import FileObjectSource
from ..types import Progress
from .args import (
    BLOSC_ARGS,
    DEFAULT_CLEVEL,
    DEFAULT_CNAME,
    DEFAULT_META_CODEC,
    DEFAULT_META_LEVEL,
    DEFAULT_SHUFFLE,
    check_range,
)
from .fileappend import append_content, journaled, plan_append, rewrite_section
from .pack import bytes_left


def append(
    orig_file: str | os.PathLike[str],
    new_file: str | os.PathLike[str],
    blosc_args: Mapping[str, Any] | None = None,
) -> None:
    """Append the bytes of one file to a Bloscpack file, in place.

    Parameters
    ----------
    orig_file : str or PathLike
        The Bloscpack file. Its offset table must have enough spare entries.
    new_file : str or PathLike
        The file whose bytes are appended.
    blosc_args : mapping, optional
        As for `append_fp`.

    Raises
    ------
    ValueError
        Both are the same file, or as for `append_fp`.
    LockedError
        Another writer has `orig_file` open.

    Notes
    -----
    A rollback journal beside the file undoes an append that failed or was killed: the next program
    that opens the file restores it.
    """
    if os.path.samefile(orig_file, new_file):
        raise ValueError(f"cannot append {os.fspath(orig_file)!r} to itself")
    with journaled(orig_file) as original, open(new_file, "rb") as stream:
        content: IO[bytes] = stream
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            content = io.BytesIO(stream.read())  # the length of a pipe is unknown
        append_fp(original, content, bytes_left(content), blosc_args)


def append_fp(
    original_fp: IO[bytes],
    new_content_fp: IO[bytes],
    new_size: int,
    blosc_args: Mapping[str, Any] | None = None,
) -> int:
    """Append bytes of one file object to the Bloscpack file in another.

    Parameters
    ----------
    original_fp : binary file, readable, writable and seekable
        A whole Bloscpack file.
    new_content_fp : binary file
        Read from its current position.
    new_size : int
        Number of bytes to read from it.
    blosc_args : mapping, optional
        The four items of `BloscArgs`. None, for all or for one of them, means the default: the
        typesize of the file, and those of `BloscArgs` for the others.

    Returns
    -------
    int
        Number of chunks added.

    Raises
    ------
    RuntimeError
        The file has no offset table, or too few spare entries (`NotEnoughSpace`).
    ValueError
        The new content is shorter than `new_size`, or does not consist of whole rows of the array.
    ChecksumMismatch, FormatError, CodecError
        The file is damaged. After this and the other errors here, the file is unchanged.

    Notes
    -----
    The shape of an array is updated: its first axis grows, or its last axis in Fortran order. A
    file object is changed in place without a journal: a program that is killed leaves it damaged.
    """
    return append_stream(original_fp, new_content_fp, new_size, blosc_args)


def append_stream(
    original_fp: IO[bytes],
    new_content_fp: IO[bytes],
    new_size: int,
    blosc_args: Mapping[str, Any] | None = None,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
) -> int:
    """Append as `append_fp` does, with a choice of threads and a progress callback."""
    if new_size < 0:
        raise ValueError(f"new_size must not be negative, as {new_size} is")
    container = Container.open(FileObjectSource(original_fp))
    plan = plan_append(container, new_size)
    params = _append_params(container, blosc_args)
    section = _grown_section(container, new_size)
    # A file object has no journal: look for all that can fail before the first write.
    if new_content_fp.seekable() and (left := bytes_left(new_content_fp)) < new_size:
        raise ValueError(f"the new content has {left} bytes left, {new_size} were promised")
    if new_size:
        append_content(
            original_fp,
            container,
            plan,
            new_content_fp,
            params,
            section,
            nthreads=nthreads,
            progress=progress,
        )
    return plan.nchunks


def _append_params(container: Container, blosc_args: Mapping[str, Any] | None) -> CodecParams:
    given: dict[str, Any] = dict.fromkeys(BLOSC_ARGS) if blosc_args is None else dict(blosc_args)
    if set(given) != set(BLOSC_ARGS):
        raise ValueError(f"blosc_args must have the items {', '.join(BLOSC_ARGS)}, not {given}")
    defaults: dict[str, Any] = {
        "typesize": container.header.typesize or 1,
        "clevel": DEFAULT_CLEVEL,
        "shuffle": DEFAULT_SHUFFLE,
        "cname": DEFAULT_CNAME,
    }
    chosen = {key: defaults[key] if given[key] is None else given[key] for key in BLOSC_ARGS}
    return CodecParams(
        chosen["cname"],
        chosen["clevel"],
        int(chosen["shuffle"]),
        chosen["typesize"],
        rounding=_stored_rounding(container),
    )


def _stored_rounding(container: Container) -> Rounding | None:
    """Return the rounding of the array in a file; None without one."""
    try:
        dtype, _, _ = unpack_array_metadata(container.metadata)
    except NotANumpyArray:
        return None
    return Rounding.stored(container.metadata, dtype, container.chunk_size)


def _grown_section(container: Container, nbytes: int) -> bytes | None:
    """Return the metadata section for `nbytes` more bytes of the array; None if not an array."""
    try:
        dtype, shape, is_fortran = unpack_array_metadata(container.metadata)
    except NotANumpyArray:
        return None
    check_nbytes(container, dtype, shape)
    axis = len(shape) - 1 if is_fortran else 0
    row = prod(shape[:axis] + shape[axis + 1 :]) * dtype.itemsize
    if not shape or not row or nbytes % row:
        raise ValueError(
            f"{nbytes} bytes are not whole rows of the array of shape {list(shape)} and "
            f"{dtype}, whose rows have {row} bytes"
        )
    grown = [*shape]
    grown[axis] += nbytes // row
    if container.front.metadata_header is None:
        raise NoMetadataFound("the file has no metadata section")
    return rewrite_section(container.front.metadata_header, {**container.metadata, "shape": grown})


def _seek_to_metadata(target_fp: IO[bytes]) -> int:
    """Seek to the metadata section and return its position."""
    header = Container.open(FileObjectSource(target_fp)).header
    if not header.metadata:
        raise NoMetadataFound("the file has no metadata section")
    return target_fp.seek(header.size)


def _rewrite_metadata_fp(
    target_fp: IO[bytes],
    new_metadata: Any,
    magic_format: bytes | None = None,
    checksum: str | None = None,
    codec: str | None = DEFAULT_META_CODEC,
    level: int | None = DEFAULT_META_LEVEL,
) -> None:
    """Replace the metadata of a file within their existing section.

    Parameters
    ----------
    target_fp : binary file, readable, writable and seekable
        A whole Bloscpack file.
    new_metadata : object
        A JSON value.
    magic_format, checksum, codec, level
        New encoding of the metadata; None keeps the old one. The digest of a new checksum must have
        the same size.

    Raises
    ------
    NoMetadataFound, NoChangeInMetadata, MetadataSectionTooSmall, ChecksumLengthMismatch
        The condition that the exception's name describes.
    NoSuchSerializer, NoSuchCodec, NoSuchChecksum
        The serializer, codec or checksum does not exist.
    """
    container = Container.open(FileObjectSource(target_fp))
    old = container.front.metadata_header
    if old is None:
        raise NoMetadataFound("the file has no metadata section")
    if container.metadata == new_metadata:
        raise NoChangeInMetadata("the new metadata equal the old")
    if magic_format not in (None, old.magic_format):
        raise NoSuchSerializer(f"serializer {magic_format!r} does not exist; there is b'JSON'")
    if codec not in (None, "None", "zlib"):
        raise NoSuchCodec(f"metadata codec {codec!r} does not exist; there are None, zlib")
    if level is not None:
        check_range("meta_level", level, 0, 9)
    row = old.meta_checksum if checksum is None else checksum_by_name(checksum)
    if version_for(row) > container.header.format_version:
        raise NoSuchChecksum(f"{row.name} needs format version {version_for(row)}")
    if row.nbytes != old.meta_checksum.nbytes:
        raise ChecksumLengthMismatch(
            f"{row.name} has {row.nbytes} bytes, {old.meta_checksum.name} "
            f"has {old.meta_checksum.nbytes}"
        )
    section = rewrite_section(
        old,
        new_metadata,
        checksum=row.name,
        codec=old.meta_codec if codec is None else codec,
        level=old.meta_level if level is None else level,
    )
    target_fp.seek(container.header.size)
    target_fp.write(section)
    target_fp.flush()
