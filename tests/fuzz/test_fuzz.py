"""Seeded damage to every vector and to chunks: no crash, no undocumented error, no invented data.

The work is done in separate processes (worker.py) with a memory limit, so that a crash is a failed
case and does not end the tests. A failure names its case, which the command in the message repeats.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import archive_judge
import array_judge
import array_vectors
import chunk_judge
import numpy as np
import pytest
import worker
from chunk_judge import _decode, chunks, judge
from judge import Judge
from mutation import BLIND, damage, seal
from outcomes import faulty
from store_judge import StoreJudge
from store_vectors import StoreVector, store_vectors
from vectors import FILES, load_vectors

import bloscpack as bp

WORKER = Path(__file__).with_name("worker.py")
WORKERS = 2


def run(kind: str, seed: str, count: int, folder: Path) -> None:
    """Run `count` cases on two processes and fail with what they found."""
    environment = {**os.environ, "PYTHONPATH": str(Path(bp.__file__).parents[1])}
    share = -(-count // WORKERS)
    running = []
    for first in range(0, count, share):
        progress = folder / f"progress.{kind}.{first}"
        numbers = [str(first), str(min(share, count - first))]
        command = [sys.executable, str(WORKER), kind, seed, *numbers, str(progress)]
        output = (folder / f"faults.{kind}.{first}").open("w+")
        process = subprocess.Popen(command, env=environment, stdout=output)
        running.append((process, progress, output))
    faults = []
    for process, progress, output in running:
        try:
            # The worker has a limit of processor time, and a busy machine gives it little of that.
            status = process.wait(10 * worker.max_seconds(share))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = -1
        with output:
            output.seek(0)
            faults += [json.loads(line) for line in output]
        if status != 0:
            case = progress.read_text().strip() if progress.exists() else "at the start"
            faults.append(
                {"case": f"{kind} {seed} {case}", "what": "", "faults": [f"exit {status}"]}
            )
    lines = [f"{len(faults)} of {count} cases; again: python {WORKER} KIND SEED CASE 1"]
    for fault in faults[:20]:
        lines.append(f"{fault['case']}: {fault['what']}: {'; '.join(fault['faults'])}")
    assert not faults, "\n".join(lines)


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("files", 1),
        ("chunks", 2),
        ("arrays", 21),
        ("gridfiles", 4),
        ("archives", 1 / 4),
        ("stores", 1),
    ],
)
def test_damage(kind: str, share: float, fuzz_count: int, fuzz_seed: str, tmp_path: Path) -> None:
    run(kind, fuzz_seed, int(share * fuzz_count), tmp_path)


@pytest.mark.parametrize("vector", archive_judge.archive_vectors(), ids=lambda vector: vector.name)
def test_archives_are_sound_before_they_are_damaged(vector: Any) -> None:
    data = bytearray(vector.data)
    archive_judge.seal(data, vector)
    assert data == vector.data
    assert bp.verify(vector.data).ok
    assert archive_judge.check(vector, vector.data, is_sound=True) == []


@pytest.mark.parametrize(
    ("where", "stands_for", "fault"),
    [
        ("bloscpack.Array.read_whole", np.zeros((20, 30), "i4"), "another value"),
        ("bloscpack.Archive.__iter__", iter(["b"]), "open: NotFoundError"),
        ("bloscpack.verify", OverflowError("too large"), "verify: OverflowError"),
        ("bloscpack.recover", RecursionError("too deep"), "recover: RecursionError"),
    ],
)
def test_the_judge_of_archives_sees_faults(
    where: str, stands_for: Any, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = archive_judge.archive_vectors()[1]
    monkeypatch.setattr(where, faulty(stands_for))
    found = archive_judge.check(vector, vector.data, is_sound=True)
    assert any(fault.split(":")[0] in one and fault.split(" ")[-1] in one for one in found), found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("vector", store_vectors(), ids=lambda vector: vector.name)
def test_stores_are_sound_before_they_are_damaged(vector: StoreVector, tmp_path: Path) -> None:
    data = bytearray(vector.data)
    vector.seal(data)
    assert data == vector.data
    assert bp.verify(bytes(data)).ok
    for seed in range(40):  # so that every check occurs
        judge = StoreJudge(vector, bytes(data), True, tmp_path)
        judge.check(Random(seed))
        assert judge.faults == []
    assert all(at >= 0 and at + size <= len(data) for at, size in vector.fields)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("where", "stands_for", "fault"),
    [
        (
            "bloscpack.frames.store.clip.StoreClip.read",
            np.zeros((3, 9, 8, 3), "u1"),
            "another value",
        ),
        ("bloscpack.frames.store.clip.StoreClip.read", IndexError("out of range"), "IndexError"),
        ("bloscpack.frames.store.clip.StoreClip.meta", {"number": 8}, "other metadata"),
        ("bloscpack.frames.store.framestore.FrameStore.__iter__", iter(["other"]), "other ids"),
        ("bloscpack.frames.store.framestore.FrameStore.read", [], "another value than alone"),
        (
            "bloscpack.frames.store.framestore.FrameStore.append",
            MemoryError(),
            "append: MemoryError",
        ),
        ("bloscpack.verify", OverflowError("too large"), "verify: OverflowError"),
        ("bloscpack.recover", RecursionError("too deep"), "recover: RecursionError"),
    ],
)
def test_the_judge_of_stores_sees_faults(
    where: str, stands_for: Any, fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vector = next(one for one in store_vectors() if one.name == "rgb")

    call = faulty(stands_for)
    monkeypatch.setattr(where, property(call) if where.endswith("meta") else call)
    judge = StoreJudge(vector, vector.data, True, tmp_path)
    for seed in range(40):
        judge.check(Random(seed))
    assert any(fault in each for each in judge.faults), judge.faults


def test_vectors_are_read_before_they_are_damaged() -> None:
    """The content must match its description, which reading `payload` checks."""
    vectors = load_vectors()
    assert len(vectors) > (220 if FILES else 70)
    assert sum(vector.is_small for vector in vectors) > 70
    assert {vector.data[4] for vector in vectors} == {1, 2, 3, 4}
    kinds = Counter((vector.has_grid, vector.has_array_chunks) for vector in vectors)
    assert kinds[True, False] >= 3
    assert kinds[False, True] >= 9
    assert kinds[True, True] >= 1
    for vector in vectors:
        assert vector.array.nbytes == len(vector.payload)
        assert vector.fields


def test_sealing_a_valid_file_changes_nothing() -> None:
    for vector in load_vectors():
        data = bytearray(vector.data)
        seal(data, vector.layout)
        # It writes the digest of the metadata where the original does, not where its page says.
        assert data == vector.data or vector.name == "metadata_early_digest"


def test_damage_is_of_every_kind_and_repeats() -> None:
    """The same seed gives the same damage, and every kind of damage occurs."""
    fields = [(4, 1), (8, 4), (16, 8)]
    seen = set()
    for seed in range(400):
        one, two = bytearray(range(200)), bytearray(range(200))
        what = damage(Random(seed), one, fields)
        assert what == damage(Random(seed), two, fields)
        assert one == two
        seen.add(what.split()[0] + what.split()[1] if what[0].isdigit() else what.split()[0])
        seen.update(word for word in ("swapped", "twice", "dropped", "inserted") if word in what)
    assert {"bit", "byte", "cut", "swapped", "twice", "dropped", "inserted"} <= seen
    assert len(set(BLIND)) == 9


def test_chunks_are_sound_before_they_are_damaged() -> None:
    for what, chunk in chunks():
        faults: list[str] = []
        nbytes = int.from_bytes(chunk[4:8], "little")
        assert _decode(chunk, nbytes, None, faults) is not None, what
        assert not faults, what
        assert judge(chunk, Random(what)) == [], what


def test_array_chunks_are_sound_before_they_are_damaged() -> None:
    for plan, chunk in array_judge.array_chunks():
        faults: list[str] = []
        assert array_judge._decode(chunk, plan.nbytes, None, faults) is not None, plan
        assert not faults, plan
        assert array_judge.judge(chunk) == [], plan
        assert all(at >= 0 for at, _ in array_vectors.plan_fields(plan))


@pytest.mark.parametrize(
    ("module", "judged"),
    [
        (array_judge, lambda: array_judge.judge(array_judge.array_chunks()[0][1])),
        (chunk_judge, lambda: judge(chunks()[0][1], Random(1))),
    ],
    ids=["array chunks", "chunks"],
)
def test_the_judge_sees_bytes_that_were_not_written(
    module: ModuleType, judged: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_but_one(chunk: bytes, out: memoryview) -> None:
        out[:-1] = bytes(len(out) - 1)

    monkeypatch.setattr(module, "decode_into", all_but_one)
    assert any("what was in memory before" in fault for fault in judged())


@pytest.mark.parametrize(
    ("name", "stands_for"),
    [
        ("unpack_bytes_from_bytes", (b"invented", None)),
        ("unpack_ndarray_from_bytes", IndexError("tuple index out of range")),
        ("load", OverflowError("too large")),
        ("verify", RecursionError("too deep")),
        ("open", MemoryError()),
        ("Array.read_chunk", bytes(480)),
        ("Array.iter_chunks", [bytes(480)]),
    ],
)
@pytest.mark.parametrize("file", ["array_big_endian", "array_auto_grid"])
def test_the_judge_sees_faults(
    file: str, name: str, stands_for: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vector = next(one for one in load_vectors() if one.name == file)
    assert Judge(vector, vector.data, True, tmp_path).check(Random(1)) == []

    monkeypatch.setattr(f"bloscpack.{name}", faulty(stands_for))
    faults = Judge(vector, vector.data, True, tmp_path).check(Random(1))
    reported = name.removeprefix("Array.")
    assert any(fault.startswith(reported) for fault in faults), faults


def test_a_crash_is_a_failed_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "crash.py"
    script.write_text("import os, sys; open(sys.argv[5], 'w').write('7'); os.abort()")
    monkeypatch.setattr("test_fuzz.WORKER", script)
    with pytest.raises(AssertionError, match="chunks seed 7: : exit -6"):
        run("chunks", "seed", 10, tmp_path)
