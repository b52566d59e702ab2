"""The wheel as an independent reader: its values of the vectors equal those of their manifests.

Exceptions are the differences that the manifests list, where the wheel is wrong. This justifies the
use of the wheel in other tests, on files that we write.
"""

import hashlib
from typing import Any

import pytest

import tests.oracle
from bloscpack import vrs
from tests.conftest import SMALL_VECTORS
from tests.oracle import Oracle

from . import manifests
from .subject import plain

SAMPLES = {
    "int8": "S8",
    "uint8": "U8",
    "uint8alaw": "A_LAW",
    "uint8mulaw": "MU_LAW",
    "float32le": "F32_LE",
    "float32be": "F32_BE",
    "float64le": "F64_LE",
    "float64be": "F64_BE",
    **{
        f"{sign}int{bits}{order}": f"{'U' if sign else 'S'}{bits}_{order.upper()}"
        for sign in ("", "u")
        for bits in (16, 24, 32)
        for order in ("le", "be")
    },
}


@manifests.each_vector()
def test_it_agrees_with_the_manifest(wheel: Oracle, vector: str) -> None:
    manifest = manifests.load(vector)
    found = wheel("dump(path, conversion='RAW_BUFFER')", path=str(manifests.path(vector)))
    assert found["n_records"] == manifest["n_records"]
    assert found["checksum"] == manifest["oracle_records_checksum"]
    tags = manifest["file_tags"]
    assert found["file_tags"] == {key: _escaped(tag) for key, tag in tags.items()}
    assert {stream: of["tags"] for stream, of in found["streams"].items()} == {
        stream: {key: _escaped(tag) for key, tag in of["user_tags"].items()}
        for stream, of in manifest["streams"].items()
    }
    for expected in manifest["records"]:
        record = found["records"][expected["i"]]
        assert record["stream_id"] == expected["stream_id"]
        assert record["record_type"] == expected["type"]
        assert record["format_version"] == expected["format_version"]
        assert repr(record["timestamp"]) == repr(plain(expected["timestamp"]))
        assert differences(record, expected) == expected.get("oracle_diff", [])


def test_a_dead_wheel_is_replaced(wheel: Oracle) -> None:
    kind, why = wheel.outcome("import os; os.kill(os.getpid(), 9)")
    assert (kind, "vrs wheel died (code -9)" in why) == ("died", True)
    assert wheel("1 + 1") == 2


def test_a_wheel_that_hangs_is_ended(wheel: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests.oracle, "ANSWER_TIMEOUT_S", 0.1)
    assert wheel.outcome("import signal; signal.pause()")[0] == "died"
    monkeypatch.undo()
    assert wheel("1 + 1") == 2


def differences(record: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return the differences between the wheel's record and the manifest's, in its wording."""
    found: list[str] = []
    blocks: dict[str, list[dict[str, Any]]] = {}
    for block in expected["blocks"]:
        blocks.setdefault(block["kind"], []).append(block)
    for index, block in enumerate(blocks.get("metadata", [])):
        found += _metadata(index, record["metadata_blocks"][index], block)
    for kind, check in (("image", _image), ("audio", _audio), ("custom", _custom)):
        theirs = record[f"{kind}_blocks"]
        ours = blocks.get(kind, [])
        if len(theirs) != len(ours):
            found.append(f"{kind} blocks: oracle {len(theirs)}, decoder {len(ours)}")
            continue
        specs = record["custom_block_specs" if kind == "custom" else f"{kind}_specs"]
        for index, (data, spec, block) in enumerate(zip(theirs, specs, ours, strict=True)):
            found += [f"{kind} {index}: {line}" for line in check(data, spec, block)]
    return found


def _metadata(index: int, theirs: dict[str, Any], block: dict[str, Any]) -> list[str]:
    found = []
    types = {label: kind.removeprefix("DataPiece") for label, kind, _ in block["values"]}
    ours = manifests.metadata(block)
    for label, value in ours.items():
        kind = types.get(label, "").partition("<")[0]
        if label not in theirs:
            found.append(f"metadata {index}: oracle leaves out {label!r} ({kind})")
        elif isinstance(value, manifests.Digest):
            found += _same(theirs[label], value)
        elif repr(theirs[label]) != repr(plain(value)):
            theirs_text = str(theirs[label]).replace("\\", "\\\\")
            found.append(f'metadata {index}: {label!r} ({kind}<string>): oracle "{theirs_text}"')
    return found + [
        f"metadata {index}: more {label!r}" for label in sorted(set(theirs) - set(ours))
    ]


def _image(data: Any, spec: dict[str, Any], block: dict[str, Any]) -> list[str]:
    is_raw = block["spec"].get("image_format") == "raw"
    known = {
        "image_format": spec["image_format"].replace("undefined", ""),
        "width": spec["width"],
        "height": spec["height"],
        "pixel_format": spec["pixel_format"].replace("undefined", ""),
        "stride": spec["stride"] if is_raw else 0,
        "codec": spec["codec_name"],
        "quality": spec["codec_quality"],
        "keyframe_timestamp": spec["key_frame_timestamp"],
        "keyframe_index": spec["key_frame_index"],
    }
    # The wheel never returns the second stride, and the first only for raw images.
    missing_fields = {"stride_2"} if is_raw else {"stride", "stride_2"}
    expected = {key: item for key, item in block["spec"].items() if key not in missing_fields}
    if is_raw:
        expected.setdefault("stride", spec["stride"])
    # The wheel cuts off the fraction of the seconds.
    expected["keyframe_timestamp"] = int(expected.get("keyframe_timestamp", 0))
    found = {key: item for key, item in known.items() if item}
    return _bytes(data, block) + _same(found, {key: item for key, item in expected.items() if item})


def _audio(data: Any, spec: dict[str, Any], block: dict[str, Any]) -> list[str]:
    expected = {
        "sample_format": SAMPLES.get(block["spec"].get("sample", ""), "UNDEFINED"),
        "channel_count": block["spec"].get("channels", 0),
        "sample_rate": block["spec"].get("rate", 0),
        "sample_count": block["spec"].get("samples", 0),
    }
    found = {key: spec[key] for key in expected}
    # Other samples change in the array: 24 bits are widened, padding is removed.
    is_stored = spec["sample_format"].endswith(("8", "LAW", "16_LE", "32_LE", "64_LE"))
    is_pcm = block["spec"]["audio_format"] == "pcm"
    same = [] if not is_pcm else _same(spec["buffer_size"], block["size"])
    if is_pcm and is_stored and "stride" not in block["spec"]:
        same += _bytes(data, block)
    return same + _same(found, expected)


def _custom(data: Any, spec: dict[str, Any], block: dict[str, Any]) -> list[str]:
    return _bytes(data, block) + _same(spec["buffer_size"], block["size"])


def _bytes(data: Any, block: dict[str, Any]) -> list[str]:
    stored = data[-1]
    digest = stored if isinstance(stored, str) else hashlib.sha256(stored).hexdigest()
    return _same(digest, block["sha256"])


def _escaped(tag: Any) -> str:
    """Return a tag as the wheel does, with bytes that are not UTF-8 as Python escapes."""
    if isinstance(tag, dict):
        data = bytes.fromhex(tag["$hex"])
        return "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in data)
    return str(tag)


def _same(found: Any, expected: Any) -> list[str]:
    return [] if found == expected else [f"oracle {found}, decoder {expected}"]


@pytest.mark.parametrize("name", ["recording", "recording_zstd", "recording_split"])
def test_it_reads_the_small_vectors(wheel: Oracle, name: str) -> None:
    path = SMALL_VECTORS / "formats" / f"{name}.vrs"
    found = wheel("dump(path, conversion='RAW_BUFFER')", path=str(path))
    with vrs.open(path) as recording:
        assert found["n_records"] == len(recording)
        assert found["checksum"] == recording.checksum()
        assert found["file_tags"] == dict(recording.file_tags)
        assert list(found["streams"]) == [str(stream) for stream in recording.streams]
