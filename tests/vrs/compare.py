"""Comparison of the wheel's reader with ours, apart from the known faults of the wheel.

`agree` is for files that tests write: it fails unless the wheel reads the same tags and values.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bloscpack.vrs.pyvrs
from tests.oracle import Oracle

from . import subject

# Known faults of the wheel, with the texts that tables of expected faults use.
FIRST_OF_TWO = "the first of two images or custom blocks at the start of a record is lost"
NEW_PIXELS = "two pixel formats are not known"
EMPTY = "empty vectors and maps are left out where all variable pieces are empty"
ESCAPED = "text that is not UTF-8 comes escaped"
SIZE_UNKNOWN = "the size of a compressed image is missing"
BYTES_PER_PIXEL = "bytes per pixel that are not a whole number are 4294967295"
KEY_FRAME = "the fraction of a second of a key frame is lost"
STREAM_SIZE = "a stream's size includes bytes of other records than those shown"

_UNKNOWN = 0xFFFFFFFF
_NEW_PIXELS = {"bayer10_gbrg", "bayer8_gbrg"}


def agree(wheel: Oracle, path: Path | str, **options: Any) -> dict[str, Any]:
    """Fail unless the wheel reads a file as ours does; return the dump of ours.

    `options` are those of `subject.dump`.
    """
    ours = subject.dump(bloscpack.vrs.pyvrs, str(path), **options)
    theirs = wheel("dump(path, **options)", path=str(path), options=options)
    unknown = [found for found in differences(ours, theirs) if isinstance(found, tuple)]
    assert not unknown, unknown[:10]
    return ours


def differences(ours: Any, theirs: Any) -> Iterator[str | tuple[Any, ...]]:
    """Yield the differences of two dumps: a known fault as its text, others as a tuple."""
    ours, theirs = dict(ours), dict(theirs)
    records = zip(ours.pop("records"), theirs.pop("records"), strict=True)
    for index, (our_record, their_record) in enumerate(records):
        for found in _of_records(our_record, their_record):
            yield found if isinstance(found, str) else (f"record {index}", *found)
    yield from _of_values("file", ours, theirs)


def _of_records(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Any]:
    ours, theirs = dict(ours), dict(theirs)
    for kind, specs in (("image_blocks", "image_specs"), ("custom_blocks", "custom_block_specs")):
        reason = _lost(ours, theirs, kind, specs)
        if reason is not None:
            yield reason
            lost = len(ours[kind]) - len(theirs[kind])
            ours[kind], ours[specs] = ours[kind][lost:], ours[specs][lost:]
            ours["n_blocks_in_total"] -= lost
    yield from _of_values("", ours, theirs)


def _lost(ours: dict[str, Any], theirs: dict[str, Any], kind: str, specs: str) -> str | None:
    if len(ours[kind]) - 1 == len(theirs[kind]) and ours[kind][1:] == theirs[kind]:
        pixel = ours[specs][0].get("pixel_format")
        return NEW_PIXELS if pixel in _NEW_PIXELS else FIRST_OF_TWO
    return None


def _of_values(where: str, ours: Any, theirs: Any) -> Iterator[Any]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(set(ours) | set(theirs), key=repr):
            place = f"{where}/{key}"
            if key in ours and key in theirs:
                yield from _of_values(place, ours[key], theirs[key])
            elif key in ours and ours[key] in ([], {}) and "/metadata_blocks/" in place:
                yield EMPTY
            else:
                yield place, ours.get(key, "nothing"), theirs.get(key, "nothing")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (our_item, their_item) in enumerate(zip(ours, theirs, strict=True)):
            yield from _of_values(f"{where}/{index}", our_item, their_item)
    elif repr(ours) != repr(theirs):
        yield _known(where, ours, theirs) or (where, ours, theirs)


def _known(where: str, ours: Any, theirs: Any) -> str | None:
    name = where.rpartition("/")[2]
    is_text = isinstance(ours, str) and isinstance(theirs, str)
    if is_text and ours.encode("utf-8", "surrogateescape") == _unescaped(theirs):
        return ESCAPED
    if name == "buffer_size" and theirs == _UNKNOWN:
        return SIZE_UNKNOWN
    if name == "bytes_per_pixel" and (ours, theirs) == (0, _UNKNOWN):
        return BYTES_PER_PIXEL
    if name == "key_frame_timestamp" and theirs == int(ours):
        return KEY_FRAME
    if name == "size" and where.startswith("file/streams/") and theirs > ours:
        return STREAM_SIZE
    return None


def _unescaped(text: str) -> bytes:
    return text.encode("latin-1", "replace").decode("unicode_escape").encode("latin-1", "replace")
