import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli.array.summary import summary_fields
from bloscpack.container.front import read_trailer
from bloscpack.container.reader import Container
from bloscpack.format.metadata import pack_section
from bloscpack.storage.file import open_source
from bloscpack.storage.memory import MemorySource
from tests.conftest import ReferenceFolder

from .conftest import Blpk, flip

HOSTILE = {
    "\x1b]0;owned\x07": "\x9b2J\n\r\u202etxt.exe",
    "surrogate": "\ud800 \udfff",
    "numbers": [float("nan"), float("inf"), -float("inf"), 10**300],
    "accents": "\u00e9\u65e5\U0001f600",
}
FIELDS = ["schema_version", "command", "path", "cbytes", "nbytes", "nchunks", "ratio", "header"]
FIELDS += ["first_offsets", "metadata_header", "metadata", "array", "trailer"]
FIELDS += ["stats", "dead_nbytes", "kept_versions", "kept_nbytes", "first_chunk"]
FIELDS += ["errors"]


def test_json_schema(blpk: Blpk, ramp: Path) -> None:
    document = blpk("info", "--json", ramp).json
    assert list(document) == FIELDS
    assert document["schema_version"] == 1
    assert document["command"] == "info"
    assert document["path"] == os.fspath(ramp)
    assert document["cbytes"] == ramp.stat().st_size
    assert document["nbytes"] == 960
    assert document["nchunks"] == 5
    assert document["ratio"] == 960 / ramp.stat().st_size
    assert document["header"] == {
        "format_version": 3,
        "offsets": True,
        "metadata": True,
        "checksum": "crc32",
        "typesize": 8,
        "chunk_size": 224,
        "last_chunk": 64,
        "nchunks": 5,
        "max_app_chunks": 50,
    }
    assert len(document["first_offsets"]) == 5
    assert document["metadata_header"]["magic_format"] == "JSON"
    assert document["metadata_header"]["meta_checksum"] == "adler32"
    assert document["metadata"]["shape"] == [30, 4]
    assert document["array"] == {"shape": [30, 4], "dtype": "<f8", "order": "C"}
    chunk = document["first_chunk"]
    assert (chunk["nbytes"], chunk["typesize"], chunk["codec"]) == (224, 8, "zstd")
    assert (chunk["shuffle"], chunk["is_memcpy"]) == ("byte", False)
    assert document["errors"] == []


def test_json_of_bytes_without_anything(blpk: Blpk, plain: Path) -> None:
    blpk("c", "-o", "--shuffle", "bit", plain, "x.blp")
    document = blpk("i", "--json", "x.blp").json
    assert list(document) == FIELDS
    assert (document["first_offsets"], document["metadata_header"]) == ([], None)
    assert (document["metadata"], document["array"]) == (None, None)
    assert document["first_chunk"]["shuffle"] == "bit"


def test_from_standard_input(blpk: Blpk, packed: Path) -> None:
    assert blpk("i", "-", stdin=packed.read_bytes()).out == blpk("i", packed).out


def test_version_4(blpk: Blpk, plain: Path) -> None:
    blpk("c", "-k", "xxh3_128", plain, "x.blp")
    text = blpk("i", "x.blp").out
    assert "blpk:     format_version: 4\n" in text
    assert "blpk:     checksum: 'xxh3_128'\n" in text


def test_hostile_metadata(blpk: Blpk, plain: Path, content: bytes) -> None:
    bp.pack_bytes_to_file(content, "x.blp", metadata=HOSTILE)
    for argv in (["i", "x.blp"], ["d", "x.blp", "out"]):
        ended = blpk(*argv)
        assert ended.code == 0
        assert all(line.isprintable() for line in ended.out.split("\n"))
        assert "\\x1b]0;owned\\x07" in ended.out
    ended = blpk("d", "x.blp", "-")
    assert "\\x9b2J\\n\\r\\u202etxt.exe" in ended.err
    document = blpk("i", "--json", "x.blp").json
    assert document["metadata"] == HOSTILE | {"numbers": ["NaN", "Infinity", "-Infinity", 10**300]}


def test_deep_metadata(blpk: Blpk, content: bytes) -> None:
    # Nested too deeply for pprint, but not for the JSON parser.
    value = json.loads("[" * 500 + "]" * 500)
    bp.pack_bytes_to_file(content, "x.blp", metadata=value)
    ended = blpk("i", "x.blp")
    assert ended.code == 0
    assert f"blpk: {'[' * 500}{']' * 500}\n" in ended.out
    assert blpk("i", "--json", "x.blp").json["metadata"] == value


def test_hostile_names(blpk: Blpk, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "\x1b[2J\n\u202e.blp"
    packed.rename(name)
    raw = os.fsdecode(b"bad \xff.blp")
    for each in (name, raw, "no" + name):
        for command in ("i", "verify", "ls", "d"):
            for options in ([], ["--json"]) if command != "d" else ([],):
                ended = blpk("-v", command, *options, each)
                text = ended.out + ended.err
                assert all(line.isprintable() for line in text.split("\n")), (command, options)
                assert ended.code == (0 if each == name else 1)
    assert blpk("ls", "--json", name).json["files"][0]["path"] == name
    assert blpk("ls", "--json", raw).json["files"][0]["path"] == raw


def test_a_damaged_first_chunk_does_not_hide_the_rest(blpk: Blpk, packed: Path) -> None:
    start = blpk("i", "--json", packed).json["first_offsets"][0]
    flip(packed, start + 40)
    ended = blpk("i", packed)
    assert ended.code == 3
    assert "MetadataHeader:" in ended.out
    assert "First chunk" not in ended.out
    assert "chunk 0" in ended.err
    ended = blpk("i", "--json", packed)
    assert ended.code == 3
    assert ended.json["first_chunk"] is None
    assert "chunk 0" in ended.json["errors"][0]


def test_a_table_never_filled_in(blpk: Blpk, packed: Path) -> None:
    document = blpk("i", "--json", packed).json
    data = bytearray(packed.read_bytes())
    end = document["first_offsets"][0]
    data[end - 8 * 110 : end] = b"\xff" * 8 * 110
    packed.write_bytes(data)
    assert "blpk: [-1,-1,-1,-1,-1,...]\n" in blpk("i", packed).out


def test_false_metadata_of_an_array_are_shown(blpk: Blpk, content: bytes) -> None:
    lie = {"container": "numpy", "dtype": "'|O'", "shape": [-1], "order": "C"}
    bp.pack_bytes_to_file(content, "x.blp", metadata=lie)
    document = blpk("i", "--json", "x.blp").json
    assert (document["metadata"], document["array"]) == (lie, None)


def test_metadata_null(blpk: Blpk) -> None:
    raw = bytearray(bp.pack_bytes_to_bytes(bytes(100), bloscpack_args=bp.BloscpackArgs(False)))
    raw[5] |= 2
    Path("x.blp").write_bytes(raw[:32] + pack_section(None) + raw[32:])
    assert "Metadata:" not in blpk("i", "x.blp").out
    document = blpk("i", "--json", "x.blp").json
    assert document["metadata"] is None
    assert document["metadata_header"]["meta_size"] == 4


def test_metadata_whose_checksum_is_right_and_text_is_not(blpk: Blpk) -> None:
    section = bytearray(pack_section("1234", checksum=None, codec="None"))
    section[32] = ord("{")
    raw = bytearray(bp.pack_bytes_to_bytes(bytes(100), bloscpack_args=bp.BloscpackArgs(False)))
    raw[5] |= 2
    Path("x.blp").write_bytes(raw[:32] + section + raw[32:])
    for argv in (["i", "x.blp"], ["d", "x.blp"]):
        assert blpk(*argv).code == 3
    assert not Path("x").exists()


@pytest.mark.slow
def test_headers_of_all_vectors(blpk: Blpk) -> None:
    folder = ReferenceFolder("bloscpack")
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    for entry in manifest["vectors"]:
        document = blpk("i", "--json", folder / entry["file"]).json
        assert document["header"] == entry["header"], entry["file"]
        assert document["first_offsets"] == (entry["offsets"] or [])[:5], entry["file"]
        assert document["metadata"] == entry["metadata"], entry["file"]
        flags = entry["chunks"][0][3]
        assert document["first_chunk"]["flags"] == flags, entry["file"]


def test_order_and_extension_types(blpk: Blpk) -> None:
    bp.save("f.blp", np.asfortranarray(np.zeros((2, 3), ">i2")))
    assert blpk("i", "--json", "f.blp").json["array"] == {
        "shape": [2, 3],
        "dtype": ">i2",
        "order": "F",
    }
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bp.save("b.blp", np.zeros(3, ml_dtypes.bfloat16))
    assert blpk("i", "--json", "b.blp").json["array"]["dtype"] == "bfloat16"


def test_a_changed_array(blpk: Blpk, tmp_path: Path) -> None:
    path = tmp_path / "t.blp"
    bp.save(path, np.arange(30_000), chunks=1000, changeable=True)
    with bp.open(path, "r+") as a:
        a[5] = 0
    assert blpk("info", path, "--json").json["dead_nbytes"] > 0
    with Container.open(open_source(path)) as container:
        fields = dict(
            summary_fields(
                container,
                container.metadata,
                None,
                None,
                1,
                {"kept_versions": 3, "kept_nbytes": 5},
                None,
            )
        )
    assert str(fields["format"]).startswith("version 4, read by")
    assert str(fields["commit"]).startswith("2, ")
    assert fields["versions"] == "3 before it, 5B more"


@pytest.mark.parametrize(
    ("array", "stats"),
    [
        ([3, 1, 2], {"min": 1, "max": 3, "nan": 0}),
        ([np.nan, 1.5, np.inf], {"min": 1.5, "max": "inf", "nan": 1}),
        (["2020-02", "NaT"], {"min": "2020-02", "max": "2020-02", "nan": 1}),
        ([np.nan], {"min": None, "max": None, "nan": 1}),
    ],
)
def test_statistics(blpk: Blpk, tmp_path: Path, array: Any, stats: Any) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, np.array(array, "M8[M]" if array[-1] == "NaT" else None), stats=True, chunks=2)
    assert blpk("info", "--json", path).json["stats"] == stats
    data = bytearray(path.read_bytes())
    trailer = read_trailer(MemorySource(data))
    assert trailer is not None
    data[trailer.statistics_extent()[0]] ^= 1
    path.write_bytes(data)
    ended = blpk("info", "--json", path)
    assert ended.json["stats"] is None
    assert "the statistics are damaged" in ended.json["errors"][0]
