"""Seeded damage to Benzina datasets: values or documented errors, the same in every way."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from dataset_damage import damaged
from dataset_judge import DatasetJudge
from dataset_vectors import DatasetVector, dataset_vectors
from outcomes import faulty
from test_fuzz import run

from bloscpack.exceptions import FormatError

pytest.importorskip("av", reason="pictures are decoded by PyAV")


def named(name: str) -> DatasetVector:
    return next(each for each in dataset_vectors() if each.name == name)


def test_damaged_datasets(fuzz_count: int, fuzz_seed: str, tmp_path: Path) -> None:
    run("datasets", fuzz_seed, fuzz_count, tmp_path)


def test_datasets_are_sound_before_they_are_damaged(tmp_path: Path) -> None:
    for vector in dataset_vectors():
        for seed in range(30 if len(vector.data) < 20_000 else 3):
            judge = DatasetJudge(vector, vector.data, tmp_path)
            judge.check(Random(seed))
            assert judge.faults == [], vector.name
        assert all(0 <= box.offset <= box.end <= len(vector.data) for box in vector.boxes)
        assert vector.samples


def test_damage_repeats_and_is_of_every_kind() -> None:
    vector, seen = named("hevc"), set()
    for seed in range(200):
        what, data = damaged(Random(seed), vector)
        assert (what, data) == damaged(Random(seed), vector)
        seen.update(word for part in what.split(", ") for word in part.split()[:1])
    assert {"size", "kind", "box", "word", "bit", "byte", "cut"} <= seen


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("where", "stands_for", "fault"),
    [
        ("dataset.open", IndexError("out of range"), "open: IndexError"),
        ("mp4.track.DatasetTrack.read", b"invented", "not the bytes of the file"),
        ("datasetfile.Content.target", 99, "99 alone"),
        ("datasetfile.Content.name_bytes", b"other", "'other' alone"),
        ("sample.Sample.decode", OverflowError("too large"), "decode: OverflowError"),
        ("load.loader.Loader.__iter__", MemoryError(), "batches: MemoryError"),
        ("load.loader.Loader.__iter__", FormatError("wrong"), "names nothing: wrong"),
        ("extraction.extract", RecursionError("too deep"), "extract: RecursionError"),
        ("names.IdTable.find", 1, "an id leads to another sample"),
    ],
)
def test_the_judge_of_datasets_sees_faults(
    where: str, stands_for: Any, fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vector = named("hevc")
    target = where.removeprefix("dataset.").removeprefix("extraction.")
    monkeypatch.setattr(f"bloscpack.benzina.{target}", faulty(stands_for))
    found = []
    for seed in range(60):
        judge = DatasetJudge(vector, vector.data, tmp_path)
        judge.check(Random(seed))
        found += judge.faults
    assert any(fault in each for each in found), found[:5]


def test_the_judge_sees_damage_that_spreads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vector = named("hevc")
    data = bytearray(vector.data)
    data[vector.samples[0].start + 30] ^= 1
    judge = DatasetJudge(vector, bytes(data), tmp_path)
    judge.check(Random(1))
    assert judge.faults == []
    monkeypatch.setattr("bloscpack.benzina.datasetfile.Content.target", faulty(7))
    judge.check(Random(1))
    assert any("damage within a sample" in each for each in judge.faults)
