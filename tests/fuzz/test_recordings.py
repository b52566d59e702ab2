"""Seeded damage to VRS recordings: values or documented errors, the same in every way."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from outcomes import faulty
from recording_damage import damaged, damaged_tags
from recording_judge import RecordingJudge
from recordings import FILES, RecordingVector, rebuilt, recording_vectors, unpack_tags
from test_fuzz import run

from bloscpack import vrs
from bloscpack.exceptions import FormatError
from tests.conftest import Some


def named(name: str) -> RecordingVector:
    return next(each for each in recording_vectors() if each.name == name)


def test_damaged_recordings(fuzz_count: int, fuzz_seed: str, tmp_path: Path) -> None:
    run("recordings", fuzz_seed, fuzz_count, tmp_path)


def test_recordings_are_sound_before_they_are_damaged(tmp_path: Path, some: Some) -> None:
    vectors = recording_vectors()
    assert len(vectors) > (50 if FILES else 3)
    for vector in vectors:
        for seed in some(range(4 if len(vector.data) < 50_000 else 1), 4):
            judge = RecordingJudge(vector, vector.data, True, tmp_path)
            judge.check(Random(f"{vector.name} {seed}"))
            assert judge.faults == [], vector.name
        assert all(at >= 0 and at + size <= len(vector.data) for at, size in vector.fields)


@pytest.mark.parametrize("has_index", [True, False])
def test_rebuilt_recordings_say_the_same(has_index: bool) -> None:
    for vector in recording_vectors():
        if vector.name in (
            "cxx_chunked",
            "enc_split",
            "enc_split_zstd",
            "cpy_split_zstd",
            "recording_split",
        ):
            continue  # truncated, or in an order for which only their own index is correct
        with vrs.open(rebuilt(list(vector.records), has_index=has_index), nthreads=1) as recording:
            assert recording.index_kind == ("classic end" if has_index else "scanned")
            with vrs.open(vector.data) as original:
                assert recording.checksum() == original.checksum(), vector.name
                assert len(recording) == len(vector.shown)


def test_damage_repeats_and_is_of_every_kind() -> None:
    vector = named("recording")
    seen = set()
    for seed in range(60):
        what, data, _ = damaged(Random(seed), vector)
        assert (what, data) == damaged(Random(seed), vector)[:2]
        seen.add(what.split(":")[0].split()[0])
    assert {"DL", "RF", "record"} <= seen
    assert len(seen) > 5
    payload = vector.records[0].payload
    # A word may be replaced by itself.
    assert sum(damaged_tags(Random(seed), payload)[1] != payload for seed in range(20)) > 15
    streams, file_tags = unpack_tags(payload)
    assert {id_ for id_, _, _ in streams}
    assert isinstance(file_tags, dict)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("where", "stands_for", "fault"),
    [
        ("read.recordreader.RecordReader.iter_records", iter([]), "iteration ends after 0 records"),
        ("read.recordreader.decode_payload", b"invented", "is another by damage"),
        ("read.record.Record.metadata_blocks", property(lambda _: ({"other": 1},)), "by block"),
        ("stream.Stream.field", np.full(99, 7, "u1"), "field"),
        ("stream.Stream.counts", property(faulty(IndexError("no"))), "stream 101-1: IndexError"),
        ("recording.Recording.checksum", MemoryError(), "checksum: MemoryError"),
        ("recording.Recording.__reduce__", RecursionError("deep"), "pickle: RecursionError"),
        ("streamclips.StreamClip.__getitem__", np.zeros((9, 8), "u1"), "not the image of its"),
        ("read.record.Block.array", OverflowError("large"), "OverflowError"),
        ("read.filesource.ChunkedSource.locate", UnicodeError("text"), "UnicodeError"),
        ("pyvrs.SyncVRSReader.get_stream_info", KeyError("id"), "pyvrs 101-1: KeyError"),
        ("read.scan._Scanner._find_next", None, "is lost by damage"),
        ("copy", MemoryError(), "MemoryError"),
        ("edit.copying.choose_rows", np.arange(1), ": 1 records"),
        ("merge", vrs.CopyReport((), 1, 2, 0, 0, 0), "_check_merge: FileNotFoundError"),
        ("fix_index", vrs.IndexRepair("in place", 99, ()), "fix_index: "),
    ],
)
def test_the_judge_of_recordings_sees_faults(
    where: str, stands_for: Any, fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = {"read.recordreader": "recording_zstd", "read.scan": "recording_no_index"}
    module = ".".join(where.split(".")[:2])
    vector = named(names.get(module, "recording"))
    data = bytearray(vector.data)
    if module == "read.scan":
        data[vector.shown[3].offset + 26] = 77  # not a record type
    is_value = isinstance(stands_for, property)
    monkeypatch.setattr(f"bloscpack.vrs.{where}", stands_for if is_value else faulty(stands_for))
    judge = RecordingJudge(vector, bytes(data), True, tmp_path)
    for seed in range(200):  # until every check has occurred
        if not any(fault in each for each in judge.faults):
            judge.check(Random(seed))
    assert any(fault in each for each in judge.faults), judge.faults[:5]


def test_the_judge_of_recordings_takes_documented_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vector = named("recording")
    monkeypatch.setattr(vrs, "open", faulty(FormatError("damaged")))
    judge = RecordingJudge(vector, vector.data, True, tmp_path)
    judge.check(Random(1))
    assert judge.faults == []
