"""Order of clips: a permutation for every length and seed, split, resumed and reproducible."""

import json
import pickle
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.frames.sampler import ClipIndex, ClipSampler, permuted, random_number
from bloscpack.frames.windows import Windows


def order(length: int, seed: int, epoch: int = 0) -> list[int]:
    return permuted(np.arange(length, dtype=np.uint64), length, seed, epoch).tolist()


@pytest.mark.parametrize("length", [*range(1, 70), 255, 256, 257, 1000, 4096, 4097, 65537])
def test_every_clip_comes_once(length: int) -> None:
    for seed in range(5):
        assert sorted(order(length, seed)) == list(range(length))


def test_long_lengths_need_no_list() -> None:
    for length in (1 << 40, (1 << 63) - 25):
        found = list(islice(ClipSampler(length, seed=3), 1000))
        assert len(set(found)) == 1000
        assert 0 <= min(found) < max(found) < length
        assert max(found) > length * 0.99


@pytest.mark.parametrize("length", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_every_permutation_of_a_few_is_as_likely(length: int) -> None:
    seeds = 4800
    counts = Counter(tuple(order(length, seed)) for seed in range(seeds))
    expected = seeds / np.prod(range(1, length + 1))
    assert len(counts) == np.prod(range(1, length + 1))
    # five standard deviations
    assert max(abs(count - expected) for count in counts.values()) < 5 * expected**0.5


@pytest.mark.slow
@pytest.mark.parametrize("length", [5, 16, 17, 40])
def test_every_clip_is_as_likely_at_every_place(length: int) -> None:
    seeds = 2000
    counts = np.zeros((length, length))
    for seed in range(seeds):
        counts[np.arange(length), order(length, seed, epoch=seed % 3)] += 1
    expected = seeds / length
    chi_square = ((counts - expected) ** 2 / expected).sum()
    freedom = (length - 1) ** 2
    assert abs(chi_square - freedom) < 5 * (2 * freedom) ** 0.5


def test_no_pattern_in_a_long_order() -> None:
    length = 20_000
    found = np.array(order(length, 7))
    assert abs(np.corrcoef(found, np.arange(length))[0, 1]) < 0.04
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.04
    steps = Counter((np.diff(found) % length).tolist())
    assert max(steps.values()) < 12  # about 1 each
    assert sum(found == np.arange(length)) < 10


def test_seeds_and_epochs_differ() -> None:
    orders = {tuple(order(20, seed, epoch)) for seed in range(30) for epoch in range(30)}
    assert len(orders) == 900
    first, second = np.array(order(5000, 1)), np.array(order(5000, 2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.08


def test_the_order_is_the_same_on_every_machine() -> None:
    assert list(ClipSampler(10)) == [2, 7, 9, 1, 0, 6, 8, 4, 3, 5]
    assert random_number(1, 2, 3) == 2806482627441532945


def test_passes_are_epochs() -> None:
    sampler = ClipSampler(50, seed=9)
    passes = [list(sampler) for _ in range(3)]
    assert [list(map(int, each)) for each in passes] == [order(50, 9, epoch) for epoch in range(3)]
    assert [{index.epoch for index in each} for each in passes] == [{0}, {1}, {2}]
    sampler.set_epoch(1)
    assert list(sampler) == passes[1]
    sampler.set_epoch(1)
    assert list(sampler) == passes[1]
    assert list(sampler) == passes[2]


def test_an_unused_iterator_is_not_a_pass() -> None:
    sampler = ClipSampler(5)
    iter(sampler)
    assert list(sampler) == order(5, 0, 0)
    assert sampler.epoch == 0


def test_without_shuffle() -> None:
    sampler = ClipSampler(["a", "b", "c"], shuffle=False)
    assert [list(sampler), list(sampler)] == [[0, 1, 2], [0, 1, 2]]
    assert list(ClipSampler(0)) == []
    assert list(ClipSampler(0, batch_size=3)) == []


def ranks(length: int, world_size: int, **options: Any) -> list[list[int]]:
    return [
        list(ClipSampler(length, seed=4, rank=rank, world_size=world_size, **options))
        for rank in range(world_size)
    ]


@given(length=st.integers(0, 60), world_size=st.integers(1, 9))
def test_ranks_share_an_epoch(length: int, world_size: int) -> None:
    whole = order(length, 4) if length else []
    for drop_last in (False, True):
        parts = ranks(length, world_size, drop_last=drop_last)
        assert len({len(part) for part in parts}) == 1
        assert len(ClipSampler(length, world_size=world_size, drop_last=drop_last)) == len(parts[0])
        mixed = [index for turn in zip(*parts, strict=True) for index in turn]
        if drop_last:
            assert mixed == whole[: length - length % world_size]
        else:
            padded = -length % world_size
            assert mixed[:length] == whole
            assert mixed[length:] == (whole * world_size)[:padded]


@given(
    length=st.integers(0, 40),
    batch_size=st.integers(1, 7),
    world_size=st.integers(1, 3),
    drop_last=st.booleans(),
)
def test_batches(length: int, batch_size: int, world_size: int, drop_last: bool) -> None:
    single = ranks(length, world_size, drop_last=drop_last)
    batched: Any = ranks(length, world_size, drop_last=drop_last, batch_size=batch_size)
    sampler = ClipSampler(length, world_size=world_size, drop_last=drop_last, batch_size=batch_size)
    for flat, batches in zip(single, batched, strict=True):
        expected = [flat[at : at + batch_size] for at in range(0, len(flat), batch_size)]
        if drop_last and expected and len(expected[-1]) < batch_size:
            expected.pop()
        assert batches == expected
        assert len(sampler) == len(batches)


@given(
    length=st.integers(1, 50),
    taken=st.integers(0, 50),
    world_size=st.integers(1, 4),
    drop_last=st.booleans(),
)
def test_resumed_is_uninterrupted(
    length: int, taken: int, world_size: int, drop_last: bool
) -> None:
    options: Any = {"world_size": world_size, "drop_last": drop_last}
    for rank in range(world_size):
        whole = ClipSampler(length, seed=8, rank=rank, **options)
        whole.set_epoch(2)
        expected = [list(whole), list(whole)]
        cut = ClipSampler(length, seed=8, rank=rank, **options)
        cut.set_epoch(2)
        begun = list(islice(cut, taken))
        state = json.loads(json.dumps(cut.state_dict()))
        resumed = ClipSampler(length, rank=rank, **options)
        resumed.load_state_dict(state)
        resumed.set_epoch(2)
        assert begun + list(resumed) == expected[0]
        assert list(resumed) == expected[1]


def test_state_of_used_clips() -> None:
    sampler = ClipSampler(20, batch_size=3)
    ahead = list(islice(sampler, 5))
    resumed = ClipSampler(20, batch_size=3)
    resumed.load_state_dict(sampler.state_dict(seen=6))
    rest = list(resumed)
    assert ahead[:2] + rest == [order(20, 0)[at : at + 3] for at in range(0, 20, 3)]
    # and once more, during the resumed pass
    again = ClipSampler(20, batch_size=3)
    again.load_state_dict(resumed.state_dict(seen=9))
    assert list(again) == rest[3:]
    with pytest.raises(ValueError, match="seen is 15, but this pass has yielded 14"):
        resumed.state_dict(seen=15)


def test_resuming_on_another_number_of_ranks() -> None:
    length, used = 37, 3
    samplers = [ClipSampler(length, seed=1, rank=rank, world_size=4) for rank in range(4)]
    begun = [index for each in samplers for index in islice(each, used)]
    rest = []
    for rank in range(2):
        resumed = ClipSampler(length, rank=rank, world_size=2)
        resumed.load_state_dict(samplers[3].state_dict())
        rest += list(resumed)
    counts = Counter(begun + rest)
    assert set(counts) == set(range(length))
    assert sum(counts.values()) == 12 + 26  # 25 are left, padded to 26


def test_setting_another_epoch_forgets_the_position() -> None:
    sampler = ClipSampler(9)
    sampler.load_state_dict({**ClipSampler(9).state_dict(), "position": 4})
    sampler.set_epoch(0)
    assert list(sampler) == order(9, 0)[4:]
    sampler.set_epoch(0)  # once more, in full
    assert list(sampler) == order(9, 0)
    sampler.load_state_dict({**ClipSampler(9).state_dict(), "position": 4})
    sampler.set_epoch(5)
    assert list(sampler) == order(9, 0, 5)


def test_mismatched_states() -> None:
    sampler: Any = ClipSampler(9)
    for state in (None, [1], "state"):
        with pytest.raises(TypeError, match="the dict that state_dict"):
            sampler.load_state_dict(state)
    state = sampler.state_dict()
    numbers = {"seed": 0, "epoch": 0, "position": 0, "length": 9}
    assert state == {**numbers, "shuffle": True, "drop_last": False, "batch_size": None}
    for wrong, message in [
        ({"length": 10}, "position 0 of 10 clips, but there are 9"),
        ({"position": 10}, "position 10 of 9"),
        ({"position": -1}, "not a state"),
        ({"epoch": "1"}, "not a state"),
        ({"seed": 1 << 64}, "seed must be"),
        ({"shuffle": False}, "made with shuffle=False, but here it is True"),
        ({"drop_last": True}, "made with drop_last=True, but here it is False"),
        ({"batch_size": 2}, "made with batch_size=2, but here it is None"),
        ({"batches": 2}, "not a state"),
        ({"epoch": 1 << 64}, "epoch must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            sampler.load_state_dict({**state, **wrong})
    with pytest.raises(ValueError, match="not a state"):
        sampler.load_state_dict({})
    with pytest.raises(ValueError, match="it lacks 'batch_size'"):
        sampler.load_state_dict({k: v for k, v in state.items() if k != "batch_size"})
    assert sampler.state_dict() == state


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 2, "world_size": 2}, "rank 2 is not one of 2"),
        ({"rank": -1}, "rank -1"),
        ({"world_size": 0}, "not one of 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_invalid_options(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClipSampler(3, **options)
    with pytest.raises(ValueError, match="must not be negative"):
        ClipSampler(-1)


def test_integers_of_numpy() -> None:
    plain = ClipSampler(9, seed=3, rank=1, world_size=2, batch_size=2)
    sampler = ClipSampler(
        np.int64(9),  # type: ignore[arg-type]
        seed=np.uint32(3),  # type: ignore[arg-type]
        rank=np.int8(1),  # type: ignore[arg-type]
        world_size=np.int8(2),  # type: ignore[arg-type]
        batch_size=np.int8(2),  # type: ignore[arg-type]
    )
    sampler.set_epoch(np.int16(4))  # type: ignore[arg-type]
    plain.set_epoch(4)
    assert next(iter(sampler)) == next(iter(plain))
    state = json.loads(json.dumps(sampler.state_dict()))
    assert state == plain.state_dict()
    sampler.load_state_dict(sampler.state_dict())


def test_windows_of_integers_of_numpy() -> None:
    plain = Windows(length=4, stride=2)
    windows = Windows(length=np.int64(4), stride=np.int64(2))  # type: ignore[arg-type]
    for drawn in (1 << 62, (1 << 63) - 1, (1 << 64) - 1):
        assert windows.select(100, 0, drawn) == plain.select(100, 0, drawn)
    assert plain.select(100, 0, 1 << 62)[0] == 23


def test_an_index_is_an_int_that_travels() -> None:
    index = ClipIndex(3, 7)
    copy = pickle.loads(pickle.dumps(index))
    assert (copy, copy.epoch, "abcd"[copy], {3: "x"}[copy]) == (3, 7, "d", "x")
