"""Headers of an array or of bytes, for ``blpk info``.

The text is byte for byte that of bloscpack 0.16 on Python 3.11, because scripts parse it. A
terminal gets a summary instead.
"""

import argparse
from collections.abc import Iterable
from typing import Any

from ...array.arraymetadata import describe_content, unpack_array_metadata
from ...array.statistics import whole_statistics
from ...container.reader import Container
from ...exceptions import BloscpackError
from ...format.checksum import Checksum
from ...format.codec import ChunkHeader
from ...format.header import OFFSET_SIZE, UNKNOWN, Header, unpack_offsets
from ...format.metadata import MetadataHeader
from ...storage.protocol import ByteSource
from ..console.describe import array_fields, kept_fields, metadata_text, report_metadata
from ..console.description import Description
from ..console.output import Console, double_pretty_size, is_for_people, prefixed
from .summary import summary_fields

_SHOWN_OFFSETS = 5
_PRETTY_FIELDS = frozenset(
    ("chunk_size", "last_chunk", "meta_size", "max_meta_size", "meta_comp_size")
)


def about(args: argparse.Namespace, source: ByteSource) -> Description:
    """Describe an array or bytes by its headers."""
    with Container.open(source) as container:
        report_metadata(Console(args), container.front.metadata_header)
        metadata = container.metadata
        chunk: ChunkHeader | None = None
        errors: list[BloscpackError] = []
        try:
            chunk = container.fetch(0).header if container.nchunks else None
        except BloscpackError as err:
            errors.append(err)
        stats = None
        try:
            # A request for a trailer that nothing else needs would be the third one.
            if container.front.trailer_state != "unread" and container.stored.has_statistics:
                stats = whole_statistics(container, describe_content(container))
        except BloscpackError as err:
            errors.append(err)
        is_whole = container.source.node is None  # not one of several arrays
        is_log = container.front.commit is not None and is_whole
        kept = kept_fields(container.source, errors, is_log=is_log)
        if args.json:
            document = _document(container, metadata, chunk, kept, stats)
            return Description(document, (), errors=errors)
        if is_for_people(args):
            cbytes = container.cbytes
            array = _array_document(metadata)
            fields = [*summary_fields(container, metadata, chunk, array, cbytes, kept, stats)]
            return Description({}, fields, errors=errors)
        classic = [*prefixed("\n".join(_text(container, metadata, chunk)))]
        return Description({}, (), classic=classic, errors=errors)


def _text(container: Container, metadata: Any, chunk: ChunkHeader | None) -> Iterable[str]:
    yield from _block("BloscpackHeader", _header_items(container.header))
    offsets = _first_offsets(container)
    if offsets:
        yield "'offsets':"
        yield f"[{','.join(map(str, offsets))},...]"
    if metadata is not None and container.front.metadata_header is not None:
        yield metadata_text(metadata, container.front.metadata_header)
        yield from _block("MetadataHeader", _header_items(container.front.metadata_header))
    if chunk is not None:
        yield f"First chunk {'array' if chunk.is_array else 'blosc'} header:"
        names = (*ChunkHeader._fields[:-1], "ctbytes")
        yield _ordered_dict(zip(names, chunk, strict=True))
    if chunk is not None and not chunk.is_array:
        yield "First chunk blosc flags: "
        yield _ordered_dict(
            (
                ("byte_shuffle", bool(chunk.flags & 1)),
                ("pure_memcpy", chunk.is_memcpy),
                ("bit_shuffle", bool(chunk.flags >> 2 & 1)),
                # The bit has the opposite meaning; the name is that of bloscpack 0.16.
                ("split_blocks", not chunk.is_split),
                ("codec", chunk.codec),
            )
        )
    if (
        container.front.trailer_state != "absent"
    ):  # bloscpack 0.16 does not write a trailer and has no line for it
        yield f"trailer: {container.front.trailer_state}"


def _block(title: str, items: Iterable[tuple[str, Any]]) -> Iterable[str]:
    yield f"{title}:"
    for name, value in items:
        pretty = name in _PRETTY_FIELDS and value != UNKNOWN
        yield f"    {name}: {double_pretty_size(value) if pretty else repr(value)}"


def _header_items(header: Header | MetadataHeader) -> Iterable[tuple[str, Any]]:
    """Yield the names and values of header fields as bloscpack 0.16 prints them."""
    for name, value in header._asdict().items():
        if name == "features" and not value:  # unknown to bloscpack 0.16
            continue
        if isinstance(value, Checksum):
            yield name, value.name
        elif name == "meta_options":
            yield name, f"{value:08b}"
        else:
            yield name, value


def _ordered_dict(items: Iterable[tuple[str, Any]]) -> str:
    """Return the repr of an OrderedDict in Python 3.11 and earlier."""
    return f"OrderedDict([{', '.join(map(repr, items))}])"


def _first_offsets(container: Container) -> list[int]:
    """Return the first entries of the offset table as stored, without checking them."""
    count = min(_SHOWN_OFFSETS, container.header.nchunks) if container.header.offsets else 0
    if container.front.commit is not None:
        return [container.front.table.entry(index)[0] for index in range(count)]
    raw = container.source.read_at(container.front.table_offset, OFFSET_SIZE * count)
    return list(unpack_offsets(raw[: len(raw) // OFFSET_SIZE * OFFSET_SIZE]))


def _document(
    container: Container,
    metadata: Any,
    chunk: ChunkHeader | None,
    kept: dict[str, int | None],
    stats: dict[str, Any] | None,
) -> dict[str, Any]:
    cbytes = container.cbytes
    metadata_header = container.front.metadata_header
    return {
        "cbytes": cbytes,
        "nbytes": container.nbytes,
        "nchunks": container.nchunks,
        "ratio": container.nbytes / cbytes,
        "header": dict(_header_items(container.header)),
        "first_offsets": _first_offsets(container),
        "metadata_header": None
        if metadata_header is None
        else _metadata_header_document(metadata_header),
        "metadata": metadata,
        "array": _array_document(metadata),
        "trailer": container.front.trailer_state,
        "stats": stats,
        "dead_nbytes": container.front.commit and container.front.commit.dead,
        **kept,
        "first_chunk": None if chunk is None else _chunk_document(chunk),
    }


def _metadata_header_document(header: MetadataHeader) -> dict[str, Any]:
    items = dict(_header_items(header))
    for name in ("magic_format", "user_codec"):
        items[name] = items[name].decode("latin-1")
    return items


def _array_document(metadata: Any) -> dict[str, Any] | None:
    try:
        dtype, shape, is_fortran = unpack_array_metadata(metadata)
    except (BloscpackError, ImportError):
        return None
    return array_fields(shape, dtype, is_fortran)


def _chunk_document(chunk: ChunkHeader) -> dict[str, Any]:
    return {
        **chunk._asdict(),
        "codec": chunk.codec,
        "shuffle": chunk.shuffle.name.lower(),
        "is_memcpy": chunk.is_memcpy,
        "is_split": chunk.is_split,
    }
