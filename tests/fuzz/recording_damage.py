"""Damage to VRS recordings: to the bytes, to the texts that describe records, and to payloads.

Texts and payloads are damaged before records are built around them, so that the damage passes
compression, sizes and the index and reaches the decoders.
"""

import re
from dataclasses import replace
from random import Random

from mutation import damage
from recordings import RecordingVector, pack_tags, rebuilt, unpack_tags

_WORDS = (
    *("data_layout", "image", "audio", "custom", "empty", "raw", "jpg", "png", "video", "jxl"),
    *("custom_codec", "pcm", "opus", "pixel=grey8", "pixel=raw10", "pixel=yuv_i420_split"),
    *("640x480", "4294967295x4294967295", "stride=4294967295", "size=4294967295", "size=0", "1x1"),
    *("int16le", "float64be", "channels=255", "samples=4294967295", "codec=H.264", "0x0"),
)
_NUMBERS = ("0", "1", "-1", "3", "255", "256", "65536", "2147483648", "4294967295", "1e999", "NaN")
_PIECES = (
    *("DataPieceValue", "DataPieceArray", "DataPieceVector", "DataPieceStringMap"),
    *("DataPieceString", "Bool", "char", "double", "Matrix4Dd", "Point2Di", "string", "uint64_t"),
    *("null", "[]", "{}", '"x"', "[[[[", "}}", '"size":4294967295', '"size":-1', "\\ud800", "\x00"),
)


def damaged(rng: Random, vector: RecordingVector) -> tuple[str, bytes, bool]:
    """Return a description, the damaged file, and whether all other bytes kept their positions."""
    chance, description = rng.random(), vector.description
    if chance < 0.25 and description is not None:
        what, payload = damaged_tags(rng, description.payload)
        records = [
            each if each is not description else replace(each, payload=payload)
            for each in vector.records
        ]
        return what, rebuilt(records, has_index=rng.random() < 0.5), False
    if chance < 0.5 and vector.shown:
        records = list(vector.records)
        done = []
        for _ in range(rng.choice((1, 2, 4))):
            index = rng.choice([k for k, each in enumerate(records) if not each.is_internal][:40])
            payload = bytearray(records[index].payload)
            if payload:
                fields = [(4 * word, 4) for word in range(min(6, max(1, len(payload) // 4)))]
                done.append(f"record {index}: {damage(rng, payload, fields)}")
                records[index] = replace(records[index], payload=bytes(payload))
        return "; ".join(done), rebuilt(records, has_index=rng.random() < 0.5), False
    data = bytearray(vector.data)
    return damage(rng, data, vector.fields), bytes(data), True


def damaged_tags(rng: Random, payload: bytes) -> tuple[str, bytes]:
    """Damage one or two words of the definition of a layout or of a record format."""
    streams, file_tags = unpack_tags(payload)
    places = [(k, tag) for k, (_, _, tags) in enumerate(streams) for tag in tags]
    kinds = [place for place in places if place[1].startswith((b"RF:", b"DL:"))]
    if not kinds:
        data = bytearray(payload)
        return f"tags: {damage(rng, data, [(0, 4), (10, 4)])}", bytes(data)
    k, tag = rng.choice(kinds)
    tags = streams[k][2]
    text = tags[tag].decode("utf-8", "surrogateescape")
    for _ in range(rng.choice((1, 1, 2))):
        text = _other_text(rng, text, is_layout=tag.startswith(b"DL:"))
    tags[tag] = text.encode("utf-8", "surrogateescape")
    if rng.random() < 0.05:
        tags[tag] += b"\xff\xfe"
    return f"{tag.decode()} is {text!r:.300}", pack_tags(streams, file_tags)


def _other_text(rng: Random, text: str, *, is_layout: bool) -> str:
    pattern = r"\d+|[A-Za-z_]+|[{}\[\]<>,:\"]" if is_layout else r"\d+|[^+/]+|[+/]"
    tokens = list(re.finditer(pattern, text))
    if not tokens:
        return rng.choice(_PIECES if is_layout else _WORDS)
    token = rng.choice(tokens)
    choice = rng.randrange(6)
    new = rng.choice(_PIECES if is_layout else _WORDS)
    if token[0].isdigit():
        new = rng.choice(_NUMBERS)
    elif choice == 0:
        new = ""
    elif choice == 1:
        new = rng.choice(tokens)[0]
    elif choice == 2:
        new = token[0] + rng.choice(("", "/", "+", ",")) + token[0]
    elif choice == 3 and rng.random() < 0.3:
        new = token[0] * rng.choice((2, 70, 1100))
    return text[: token.start()] + new + text[token.end() :]
