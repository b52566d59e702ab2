"""The files of a Gulp directory: names, index text, places of frames.

A chunk is a pair of files: ``data_N.gulp`` holds JPEG records, each padded with NULs to a multiple
of four bytes, ``meta_N.gmeta`` one JSON object: ``{id: {"frame_info": [[loc, pad, length], ...],
"meta_data": [{...}, ...]}}``. `length` includes the padding. The text we write is the text that
GulpIO2 0.0.4 writes. Pure: bytes and names in, values out.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...plugin import BytesLike, FormatError, UnsupportedError, json_values
from ..gulperrors import DirectoryError

DATA_PREFIX, DATA_SUFFIX = "data", ".gulp"
META_PREFIX, META_SUFFIX = "meta", ".gmeta"
ALIGNMENT = 4
# File for the label numbers, which GulpIO2's adapters write beside the chunks.
LABELS_NAME = "label2idx.json"

# An index of this size lists 40 million frames; it is read and parsed as a whole.
MAX_META_NBYTES = 1 << 30
# Limit on objects and arrays in an index: a constant, plus one per this many bytes. A triplet has
# at least 9 characters, but 1 MB of "{},{},{},..." would become 80 MB of Python objects.
_FREE_BRACKETS = 1 << 14
_NBYTES_PER_BRACKET = 8
# First byte of a pickle of protocol 2 or later.
_PICKLED = b"\x80"
# No file system has larger files, and sums of two such numbers fit into 64 bits.
MAX_OFFSET = 10**18

_NUMBER = re.compile(r"\d+")


class ImgInfo(NamedTuple):
    """Location of a frame.

    Attributes
    ----------
    loc : int
        Offset of its record in the data file, in bytes.
    pad : int
        Bytes of padding at the end of the record.
    length : int
        Size of the record in bytes, including the padding.
    """

    loc: int
    pad: int
    length: int


class ChunkNames(NamedTuple):
    """File names of a chunk."""

    number: int
    # Names, or paths, of the data file and the index.
    data: str
    meta: str


class Listing(NamedTuple):
    """Chunks found among the file names of a folder."""

    chunks: list[ChunkNames]  # in GulpIO2's order, which sorts names as text: 10 comes before 2
    orphans: list[str]  # data files without an index, as a killed writer leaves them
    next_number: int  # one more than the highest number in use, including orphans


def chunk_names(number: int) -> ChunkNames:
    """Return the file names for writing a chunk."""
    return ChunkNames(
        number,
        f"{DATA_PREFIX}_{number}{DATA_SUFFIX}",
        f"{META_PREFIX}_{number}{META_SUFFIX}",
    )


def list_chunks(names: Iterable[str]) -> Listing:
    """Return the chunks among the files of a folder.

    Any ``data*.gulp`` and ``meta*.gmeta`` counts; the first digits in a name are its number. Each
    name must have one of its own, and each index a data file.
    """
    listed = list(names)
    data = _by_number(listed, DATA_PREFIX, DATA_SUFFIX)
    meta = _by_number(listed, META_PREFIX, META_SUFFIX)
    for number, name in meta.items():
        if number not in data:
            raise DirectoryError(f"{name}: chunk {number} has no data file")
    order = sorted(data, key=data.__getitem__)
    return Listing(
        [ChunkNames(number, data[number], meta[number]) for number in order if number in meta],
        [data[number] for number in order if number not in meta],
        1 + max(data, default=-1),
    )


def _by_number(names: list[str], prefix: str, suffix: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for name in sorted(names):
        if not (name.startswith(prefix) and name.endswith(suffix)):
            continue
        digits = _NUMBER.search(name)
        if digits is None:
            raise DirectoryError(f"{name}: a chunk needs a number in its name")
        number = int(digits[0])
        if number in found:
            raise DirectoryError(f"{found[number]} and {name} are both chunk {number}")
        found[number] = name
    return found


def padding(nbytes: int) -> int:
    """Return the number of NULs that follow an image of `nbytes` bytes."""
    return -nbytes % ALIGNMENT


def check_jpeg(image: BytesLike) -> None:
    """Raise unless a frame is a JPEG, as GulpIO2 stores no other images."""
    if image[:2] != b"\xff\xd8":
        raise FormatError(f"no JPEG: it starts with {bytes(image[:4])!r}")


def dump_meta(thing: Any) -> str:
    """Serialize an index, or any JSON value, to the same text as GulpIO2.

    numpy numbers and arrays, as values and as keys, are written like those of Python.
    """
    try:
        return json.dumps(thing)
    except TypeError:
        return json.dumps(json_values(thing, "the index"))


def decode_text(data: bytes) -> str:
    """Decode the text of an index after limiting the number of objects in it."""
    check_meta_nbytes(len(data))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as err:
        what = f"the index is not UTF-8 text: {err}"
        if data.startswith(_PICKLED):
            what = "the index is pickled: GulpChunk with serializer=pickle_serializer reads it"
        raise FormatError(what, offset=err.start) from err
    if len(text) > _FREE_BRACKETS:
        brackets = text.count("[") + text.count("{")
        if brackets > _FREE_BRACKETS + len(text) // _NBYTES_PER_BRACKET:
            raise FormatError(f"the index has {brackets} objects in {len(data)} bytes")
    return text


def check_meta_nbytes(nbytes: int) -> None:
    """Raise if an index is larger than `MAX_META_NBYTES`."""
    if nbytes > MAX_META_NBYTES:
        raise UnsupportedError(f"the index has {nbytes} bytes; at most {MAX_META_NBYTES} are read")


def load_meta(data: bytes) -> Any:
    """Parse the JSON text `data`.

    Objects become OrderedDicts, the outermost without repeated names.
    """
    outermost = 0

    def ordered(pairs: list[tuple[str, Any]]) -> OrderedDict[str, Any]:
        nonlocal outermost
        outermost = len(pairs)  # the last call is for the outermost object
        return OrderedDict(pairs)

    text = decode_text(data)
    try:
        thing = json.loads(text, object_pairs_hook=ordered)
    except (ValueError, RecursionError) as err:
        raise FormatError(f"the index is not JSON: {err}") from err
    if isinstance(thing, OrderedDict) and len(thing) != outermost:
        raise FormatError(f"the index has {outermost - len(thing)} ids more than once")
    return thing


def lists_of(id_: str, item: Any) -> tuple[list[Any], list[Any]]:
    """Return the triplets and the metadata of an item of an index; FormatError if not lists."""
    parts = item if isinstance(item, dict) else {}
    triplets, entries = parts.get("frame_info"), parts.get("meta_data")
    if not isinstance(triplets, list) or not isinstance(entries, list):
        raise FormatError(f"item {id_!r:.80}: no lists frame_info and meta_data")
    return triplets, entries


def frame_info(triplet: Any) -> ImgInfo:
    """Return a triplet of an index after checking it."""
    if not (
        isinstance(triplet, list | tuple)
        and len(triplet) == 3
        and all(type(number) is int for number in triplet)
    ):
        raise FormatError(f"its place {triplet!r:.80} is not three integers")
    info = ImgInfo(*triplet)
    if not (0 <= info.loc < MAX_OFFSET and 0 <= info.pad <= info.length < MAX_OFFSET):
        raise FormatError(
            f"its place is loc {info.loc}, pad {info.pad}, length {info.length}; none may be "
            "negative, and pad at most length"
        )
    return info
