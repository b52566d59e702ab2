from pathlib import Path

import numpy as np

import bloscpack as bp

from .conftest import Blpk, flip

FIELDS = ["path", "status", "kind", "shape", "dtype", "order", "chunks", "nchunks", "nbytes"]
FIELDS += ["cbytes", "ratio", "checksum", "format_version", "count", "error"]


def test_one_line_a_file(blpk: Blpk, packed: Path, ramp: Path) -> None:
    bp.save("scalar.blp", np.float32(3))
    bp.save("with space.blp", np.zeros(3, [("a", "<i4"), ("b", "S3")]))
    ended = blpk("ls", "packed.blp", "ramp.blp", "scalar.blp", "with space.blp")
    assert (ended.code, ended.err) == (0, "")
    rows = [line.split(maxsplit=7) for line in ended.out.splitlines()]
    sizes = [Path(row[7]).stat().st_size for row in rows]
    assert rows[0] == [
        *["10000", "bytes", "1000", "10000", str(sizes[0]), f"{10000 / sizes[0]:.2f}"],
        *["adler32", "packed.blp"],
    ]
    assert rows[1][:5] == ["30x4", "<f8", "7x4", "960", str(sizes[1])]
    assert rows[1][6:] == ["crc32", "ramp.blp"]
    assert rows[2][:4] == ["()", "<f4", "()", "4"]
    assert rows[3][1:4] == ["[('a','<i4'),('b','S3')]", "3", "21"]
    assert rows[3][7] == "with space.blp"


def test_json(blpk: Blpk, packed: Path, ramp: Path, plain: Path) -> None:
    ended = blpk("ls", "--json", ramp, packed, plain)
    assert ended.code == 4
    document = ended.json
    assert (document["schema_version"], document["command"]) == (1, "ls")
    one, two, three = document["files"]
    assert all(list(each) == FIELDS for each in document["files"])
    assert one == {
        "path": str(ramp),
        "status": "ok",
        "kind": "array",
        "shape": [30, 4],
        "dtype": "<f8",
        "order": "C",
        "chunks": [7, 4],
        "nchunks": 5,
        "nbytes": 960,
        "cbytes": ramp.stat().st_size,
        "ratio": 960 / ramp.stat().st_size,
        "checksum": "crc32",
        "format_version": 3,
        "count": None,
        "error": None,
    }
    assert (two["kind"], two["shape"], two["dtype"]) == ("bytes", [10_000], "|u1")
    assert (three["status"], three["shape"]) == ("foreign", None)


def test_a_file_that_fails_does_not_hide_the_others(blpk: Blpk, packed: Path, ramp: Path) -> None:
    flip(packed, 5)
    ended = blpk("ls", packed, "nope", ramp)
    assert ended.code == 3
    assert ended.out.count("\n") == 1
    assert ended.err.count("\n") == 2


def test_an_array_with_false_metadata(blpk: Blpk, content: bytes) -> None:
    lie = {"container": "numpy", "dtype": "'<f8'", "shape": [10**6], "order": "C"}
    bp.pack_bytes_to_file(content, "x.blp", metadata=lie)
    for argv in (["ls", "x.blp"], ["cat", "x.blp", "0"]):
        ended = blpk(*argv)
        assert (ended.code, ended.raw) == (3, b"")
        assert ended.err.startswith("blpk: error: x.blp: metadata: shape [1000000] ")


def test_hostile_field_names(blpk: Blpk) -> None:
    bp.save("x.blp", np.zeros(2, [("\x1b[2J\n", "<i4")]))
    ended = blpk("ls", "x.blp")
    assert ended.code == 0
    assert ended.out.count("\n") == 1
    assert ended.out.rstrip("\n").isprintable()
