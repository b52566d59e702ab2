"""Hostile files: a command prints one line and ends with one of its exit codes."""

import random
import struct
from pathlib import Path

import pytest

from .conftest import Blpk

FOLDER = Path(__file__).parent / "transcripts"
COMMANDS = [
    ["info", "x.blp"],
    ["info", "--json", "x.blp"],
    ["verify", "x.blp"],
    ["ls", "x.blp"],
    ["cat", "--json", "x.blp", "::2"],
    ["cat", "--text", "x.blp", "0"],
    ["cat", "x.blp", "-o", "out"],
    ["cat", "x.blp", "--chunk", "0", "--npy"],
    ["d", "x.blp", "out"],
    ["a", "x.blp", "new"],
]


@pytest.mark.parametrize("nchunks", [2**20, 2**45, 2**56, 2**61 + 1, 2**63 - 1])
@pytest.mark.parametrize("options", [0, 1])
@pytest.mark.parametrize("argv", COMMANDS, ids=" ".join)
def test_headers_that_claim_huge_sizes(
    blpk: Blpk, nchunks: int, options: int, argv: list[str]
) -> None:
    head = struct.pack("<4sBBBBiiqq", b"blpk", 3, options, 1, 8, 2**31 - 17, 100, nchunks, 0)
    Path("x.blp").write_bytes(head + bytes(200))
    Path("new").write_bytes(b"new")
    ended = blpk(*argv)
    # Commands that read only the front may succeed.
    assert ended.code in ((0, 3) if "ls" in argv or "--json" in argv else (1, 3))
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 40))]
)
def test_mutations(blpk: Blpk, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(chance.choice(sorted(FOLDER.glob("*.blp"))).read_bytes())
    for _ in range(chance.choice((1, 2, 4))):
        position = chance.randrange(min(len(data), chance.choice((32, 120, 10_000))))
        data[position] = chance.choice((0, 1, 127, 128, 255, data[position] ^ 1))
    if seed % 4 == 0:
        del data[chance.randrange(len(data)) :]
    Path("x.blp").write_bytes(data)
    Path("new").write_bytes(b"new")
    for argv in COMMANDS:
        ended = blpk("-f", *argv)
        assert ended.code in (0, 1, 3, 4)
        assert (ended.code == 0) == (ended.err == "") or argv[0] == "verify"
        assert not list(Path().glob("*.tmp"))
