"""Location of a field in the payloads of a stream: block, piece and position."""

from typing import NamedTuple

from ...plugin import NotFoundError, UnsupportedError
from ..layout.datalayout import DataLayout, offsets_of
from ..layout.pieces import Piece, PieceKind
from ..read.decoding import StreamDecoder
from ..read.recordset import RecordSet, least_nbytes, tagged_versions

_MAX_LISTED = 30


class FieldPlace(NamedTuple):
    """Location of a field in the payloads of one format version."""

    version: int  # the format version
    layout: DataLayout  # layout of the metadata block
    key: str  # key of the piece in the layout
    piece: Piece
    start: int | None  # position of the block in all payloads, in bytes; None if it varies

    @property
    def offset(self) -> int:
        """Position in the block of the value, or of its index entry if the size varies."""
        return offsets_of(self.layout)[self.key]

    @property
    def text(self) -> str:
        """Type and version, for messages."""
        size = f" of {self.piece.size}" if self.piece.kind is PieceKind.ARRAY else ""
        return f"{self.piece.type_name}{size} in version {self.version}"


def find_places(
    records: RecordSet, versions: list[int], name: str, block: int | None
) -> list[FieldPlace]:
    """Locate a field in the records of each version.

    If `versions` is empty, the last version that the tags define is used. `name` is the label of a
    piece, or its key in the layout; `block` is needed if several metadata blocks have the label.
    Raises NotFoundError if a version does not have the field, ValueError if the name is ambiguous
    or versions differ in its type, UnsupportedError if a piece of unknown type comes before it.
    """
    return _agreed([_find(records, each, name, block) for each in versions or _listed(records)])


def _listed(records: RecordSet) -> list[int]:
    """Return the last version that the stream's tags define, for a set without records."""
    versions = tagged_versions(records)
    if not versions:
        raise NotFoundError(f"no {records.label} exist, and no tag defines their format")
    return versions[-1:]


def _find(records: RecordSet, version: int, name: str, block: int | None) -> FieldPlace:
    decoder = records.decoder(version)
    layouts = decoder.layouts
    if block is not None:
        layouts = {index: layout for index, layout in layouts.items() if index == block}
    found = [index for index, layout in layouts.items() if _keys_of(layout, name)]
    where = f"version {version} of the {records.label}"
    if block is not None:
        where = f"block {block} of {where}"
    if not found:
        keys = [key for layout in layouts.values() for key in layout.keys]
        shown = [f"{key:.60}" for key in keys[:_MAX_LISTED]]
        listed = ", ".join(shown + ["..."] * (len(keys) > _MAX_LISTED))
        raise NotFoundError(f"{where} has no field {name!r:.80}; it has {listed or 'none'}")
    if len(found) > 1:
        raise ValueError(f"{where} has a field {name!r:.80} in blocks {found}: choose with block=")
    layout = layouts[found[0]]
    keys = _keys_of(layout, name)
    if len(keys) > 1:
        raise ValueError(f"{where} has several fields {name!r:.80}: choose {' or '.join(keys)}")
    piece = layout.pieces[layout.keys.index(keys[0])]
    if keys[0] in layout.missing:
        reason = layout.undecodable or f"its type {piece.type_name!r:.80} is unknown"
        raise UnsupportedError(f"{where}: field {name!r:.80} cannot be decoded: {reason}")
    return FieldPlace(version, layout, keys[0], piece, _start_of(decoder, found[0]))


def _keys_of(layout: DataLayout, name: str) -> list[str]:
    if name in layout.keys:
        return [name]
    pairs = zip(layout.keys, layout.pieces, strict=True)
    return [key for key, piece in pairs if piece.label == name]


def _start_of(decoder: StreamDecoder, block: int) -> int | None:
    """Return the position of a block in every payload; None if it varies."""
    start, layouts = 0, decoder.layouts
    for index, content in enumerate(decoder.contents[:block]):
        layout = layouts.get(index)
        nbytes = least_nbytes(content, layout)
        if nbytes is None or (layout is not None and layout.variable):
            return None
        start += nbytes
    return start


def _agreed(places: list[FieldPlace]) -> list[FieldPlace]:
    first = places[0]
    for place in places[1:]:
        if (place.piece.type_name, place.piece.size) != (first.piece.type_name, first.piece.size):
            raise ValueError(
                f"field {first.key!r:.80} is {first.text}, but {place.text}: choose with version="
            )
    return places
