"""Every vector, opened: tags, order, headers, payloads, blocks and checksum as in its manifest."""

import hashlib
import json
from typing import Any

import pytest

from bloscpack import vrs
from bloscpack.vrs.format.description import strip_name_number

from .test_block_vectors import check_block
from .test_layout_vectors import as_manifest
from .vectorfiles import FOLDER, NAMES, VectorFile

each_file = pytest.mark.parametrize("name", NAMES)
each_index = pytest.mark.parametrize("index", ["auto", "rebuild"])
pytestmark = pytest.mark.skipif(not NAMES, reason=FOLDER.missing)


def shown(tags: dict[str, str], expected: dict[str, Any]) -> dict[str, Any]:
    """Return tags as in the manifest, which has digests of some long ones."""
    return {
        name: digest(value) if "$len" in expected.get(name, "") else as_manifest(value)
        for name, value in tags.items()
    }


def digest(value: str) -> dict[str, Any]:
    dumped = json.dumps(value).encode()
    return {"$sha256_of_json": hashlib.sha256(dumped).hexdigest(), "$len": len(value)}


@each_file
@each_index
def test_records(name: str, index: str) -> None:
    manifest = VectorFile(name).manifest
    with vrs.open(FOLDER / f"{name}.vrs", index=index) as recording:
        assert len(recording) == manifest["n_records"]
        hashes = [hashlib.sha256(record.payload).digest() for record in recording]
        assert hashlib.sha256(b"".join(hashes)).hexdigest() == manifest["all_payloads_sha256"]
        assert recording.checksum() == manifest["oracle_records_checksum"]
        for entry in manifest["records"]:
            check_record(recording, entry)


def check_record(recording: vrs.Recording, entry: dict[str, Any]) -> None:
    row = entry["i"]
    record, table = recording[row], recording.table
    found = {
        "i": record.record_index,
        "stream_id": record.stream_id,
        "type": record.record_type,
        "timestamp": as_manifest(record.timestamp),
        "format_version": record.format_version,
        "offset": int(table.offset[row]),
        "disk_size": int(table.size[row]),
        "payload_size": len(record.payload),
        "payload_sha256": hashlib.sha256(record.payload).hexdigest(),
    }
    assert found == {name: entry[name] for name in found}
    for block, expected in zip(record.blocks, entry["blocks"], strict=True):
        check_block(block, expected)
    assert record.note == entry.get("note")


@each_file
def test_header_index_and_tags(name: str) -> None:
    manifest = VectorFile(name).manifest
    with vrs.open(FOLDER / f"{name}.vrs") as recording:
        header = recording.header
        assert header._asdict() == {
            "creation_id": manifest["creation_id"],
            "file_header_size": manifest["file_header_size"],
            "record_header_size": manifest["record_header_size"],
            "index_offset": manifest["index_offset"],
            "description_offset": manifest["description_offset"],
            "first_record_offset": manifest["first_user_record_offset"],
            "version": manifest["version"],
        }
        kind = manifest["index"].removeprefix("none -> ")
        assert recording.index_kind == kind
        assert [part.nbytes for part in recording.source.parts] == manifest["chunks"]
        damaged = {"cxx_crash_noindex": 1943, "enc_trailing": 63}
        assert sum(gap.nbytes for gap in recording.report.gaps) == damaged.get(name, 0)
        assert recording.report.is_clean == (kind != "scanned" and name not in damaged)
        assert shown(recording.file_tags, manifest["file_tags"]) == manifest["file_tags"]
        assert list(recording.streams) == sorted(manifest["streams"], key=numbers)
        for id_, stream in recording.streams.items():
            check_tags(stream, manifest["streams"][id_])


def numbers(id_: str) -> list[int]:
    return [int(number) for number in id_.split("-")]


def check_tags(stream: vrs.Stream, expected: dict[str, Any]) -> None:
    """Compare the tags that a manifest has with those of the stream."""
    assert shown(stream.tags, expected["user_tags"]) == expected["user_tags"]
    stored = dict(expected["vrs_tags"])
    if "VRS_Original_Recordable_Name" in stored:
        name = strip_name_number(stored["VRS_Original_Recordable_Name"])
        stored["VRS_Original_Recordable_Name"] = name
        assert stream.name == name
    if "VRS_Serial_Number" not in stored:
        stored["VRS_Serial_Number"] = stream.serial_number
        assert len(stream.serial_number) == 16
    assert shown(stream.vrs_tags, stored) == stored
