"""Loaders that resume after any batch, and batches as an iterable dataset."""

import json
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import ConcatDataset, DataLoader, StackDataset, Subset

from bloscpack.integrations.torch import ClipSampler, FrameDataset, FrameLoader, FrameStream

from .loaders import dataset, plain, source

NBATCHES = 6  # of 21 clips


def two_epochs() -> list[Any]:
    loader = FrameLoader(dataset(), 4, seed=2)
    return [plain([batch]) for _ in range(2) for batch in loader]


def taken(batches: Any) -> list[Any]:
    return [plain([batch]) for batch in batches]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_it_resumes_after_any_batch(workers: int) -> None:
    expected = two_epochs()
    for stop in (0, 1, 4, NBATCHES) if workers == 0 else (3,):
        loader = FrameLoader(dataset(), 4, seed=2, num_workers=workers)
        running = iter(loader)
        found = [plain([next(running)]) for _ in range(stop)]
        if stop == NBATCHES:
            assert next(running, None) is None
        assert loader.epoch == stop // NBATCHES
        state = json.loads(json.dumps(loader.state_dict()))
        resumed = FrameLoader(dataset(), 4, seed=9)
        resumed.load_state_dict(state)
        for epoch in range(resumed.epoch, 2):
            resumed.set_epoch(epoch)
            found += taken(resumed)
        assert found == expected
        assert resumed.epoch == 2
    with pytest.raises(ValueError, match="not a state of a ClipSampler"):
        loader.load_state_dict({"epoch": 1})


def test_it_is_a_loader() -> None:
    loader = FrameLoader(dataset(), 4, drop_last=True, rank=1, world_size=2)
    assert isinstance(loader, DataLoader)
    assert len(loader) == len(list(loader)) == 2
    assert [len(batch["id"]) for batch in FrameLoader(list(range(5)), 2, collate_fn=as_ids)] == [
        2,
        2,
        1,
    ]


def as_ids(items: list[int]) -> dict[str, Any]:
    return {"id": items}


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_stream_gives_the_batches_of_a_loader(workers: int) -> None:
    stream: Any = FrameStream(dataset(), 4, seed=2)
    assert len(stream) == NBATCHES
    options: dict[str, Any] = {"persistent_workers": True} if workers else {}
    loader = DataLoader(stream, batch_size=None, num_workers=workers, **options)
    assert taken(loader) + taken(loader) == two_epochs()
    stream.set_epoch(1)
    assert taken(DataLoader(stream, batch_size=None)) == two_epochs()[NBATCHES:]


def test_a_stream_resumes() -> None:
    stream = FrameStream(dataset(), 4, seed=2)
    running = iter(stream)
    found = [plain([next(running)]) for _ in range(4)]
    for stop in (4, NBATCHES):
        while len(found) < stop:
            found.append(plain([next(running)]))
        if stop == NBATCHES:
            assert next(running, None) is None
        other = FrameStream(dataset(), 4)
        other.load_state_dict(json.loads(json.dumps(stream.state_dict())))
        rest = taken(other)
        if stop < NBATCHES:
            rest += taken(other)
        assert found + rest == two_epochs()
    with pytest.raises(ValueError, match="not a state of a FrameStream"):
        other.load_state_dict({})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 6}, "seed=5 of its items, but here it is 6"),
        ({"stride": 1}, "stride=2 of its items, but here it is 1"),
        ({"layout": "tchw"}, "layout='thwc' of its items"),
    ],
)
def test_a_state_of_another_dataset_is_refused(options: dict[str, Any], message: str) -> None:
    other = FrameDataset(source, **{"length": 3, "stride": 2, "seed": 5, **options})
    for make in (FrameLoader, FrameStream, lambda of, n: ClipSampler(of, batch_size=n)):
        state = make(dataset(), 4).state_dict()
        with pytest.raises(ValueError, match=message):
            make(other, 4).load_state_dict(state)
        with pytest.raises(ValueError, match="batch_size=4, but here it is 3"):
            make(dataset(), 3).load_state_dict(state)
    state = FrameStream(dataset(), 4).state_dict()
    with pytest.raises(ValueError, match="not a state of a ClipSampler"):
        FrameLoader(dataset(), 4).load_state_dict(state)
    with pytest.raises(ValueError, match=r"worker=\[1, 2\], but here it is \[0, 1\]"):
        FrameStream(dataset(), 4).load_state_dict({**state, "worker": [1, 2]})


def test_a_pass_after_one_that_was_left() -> None:
    stream = FrameStream(dataset(), 4, seed=2)
    running = iter(stream)
    for _ in range(2):
        next(running)
    running.close()  # type: ignore[attr-defined]
    assert taken(stream) == two_epochs()[NBATCHES:]


def test_the_epoch_of_a_stream_is_set_when_it_resumes() -> None:
    stream = FrameStream(dataset(), 4, seed=2)
    running = iter(stream)
    for _ in range(2):
        next(running)
    for epoch, rest in ((0, two_epochs()[2:NBATCHES]), (1, two_epochs()[NBATCHES:])):
        other = FrameStream(dataset(), 4)
        other.load_state_dict(stream.state_dict())
        other.set_epoch(epoch)
        assert taken(other) == rest


@pytest.mark.slow
def test_a_stream_resumes_with_workers_in_its_order() -> None:
    stream: Any = FrameStream(dataset(), 4, seed=2)
    running = iter(stream)
    found = [plain([next(running)])]
    other: Any = FrameStream(dataset(), 4, seed=2)
    other.load_state_dict(stream.state_dict())
    loader = DataLoader(other, batch_size=None, num_workers=2)
    assert found + taken(loader) == two_epochs()[:NBATCHES]
    halves = [FrameStream(dataset(), 4, rank=rank, world_size=2) for rank in range(2)]
    for half in halves:
        half.load_state_dict(stream.state_dict())
    rest = [number for half in halves for batch in half for number in batch["index"].tolist()]
    assert len(rest) == 18  # one is repeated, so that both have 9
    assert set(found[0][0][2] + rest) == set(range(21))


def test_loaders_without_batches_or_their_order() -> None:
    for make in (FrameLoader, FrameStream):
        with pytest.raises(TypeError, match="batch_size must be an integer, not None"):
            make(dataset(), None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="in_order=False"):
        FrameLoader(dataset(), 4, in_order=False)


def test_a_batch_that_failed_is_not_left_out() -> None:
    stream = FrameStream(_Failing(6), 2, shuffle=False)
    with pytest.raises(OSError, match="item 3"):
        taken(stream)
    other = FrameStream(list(range(6)), 2, shuffle=False, collate_fn=as_ids)
    other.load_state_dict(stream.state_dict())
    assert [batch["id"] for batch in other] == [[2, 3], [4, 5]]


class _Failing:
    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, int]:
        if index == 3:
            raise OSError("item 3")
        return {"id": int(index)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("kind", ["sampler", "stream"])
@pytest.mark.parametrize("workers", [0, 2])
def test_torchdata(kind: str, workers: int) -> None:
    loading = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")

    def make() -> Any:
        if kind == "stream":
            stream = FrameStream(dataset(), 4, seed=2)
            return loading.StatefulDataLoader(stream, batch_size=None, num_workers=workers)
        sampler = ClipSampler(dataset(), seed=2, batch_size=4)
        options = {"batch_sampler": sampler, "collate_fn": as_batch, "num_workers": workers}
        return loading.StatefulDataLoader(dataset(), **options)

    loader = make()
    running = iter(loader)
    found = [plain([next(running)]) for _ in range(2)]
    state = loader.state_dict()
    del running
    resumed = make()
    resumed.load_state_dict(state)
    assert found + taken(resumed) == two_epochs()[:NBATCHES]


def as_batch(items: list[Any]) -> Any:
    from bloscpack.integrations.torch import collate_clips

    return collate_clips(items)


def wrapped(kind: str) -> Any:
    made = dataset()
    if kind == "subset":
        return Subset(made, range(21))
    if kind == "both":
        halves = Subset(made, range(10)), Subset(made, range(10, 21))
        return Subset(ConcatDataset(halves), range(21))
    return StackDataset(Subset(made, range(21)))


@pytest.mark.parametrize("kind", ["subset", "both"])
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_random_windows_behind_other_datasets(kind: str, workers: int) -> None:
    """They are those of the dataset itself, so that they differ from epoch to epoch."""
    loader = FrameLoader(wrapped(kind), 4, seed=2, num_workers=workers)
    assert len(loader.dataset) == 21  # type: ignore[arg-type]
    assert taken(loader) + taken(loader) == two_epochs()
    stream: Any = FrameStream(wrapped(kind), 4, seed=2)
    batches = DataLoader(stream, batch_size=None, num_workers=workers)
    assert taken(batches) == two_epochs()[:NBATCHES]
    stream.set_epoch(1)
    assert taken(batches) == two_epochs()[NBATCHES:]


@pytest.mark.parametrize("kind", ["subset", "both"])
def test_a_sampler_whose_epochs_would_be_lost(kind: str) -> None:
    with pytest.raises(ValueError, match="would repeat: pass it to FrameLoader or FrameStream"):
        ClipSampler(wrapped(kind))
    with pytest.raises(ValueError, match="a StackDataset drops the epochs"):
        ClipSampler(wrapped("stack"))
    assert len(ClipSampler(len(wrapped(kind)))) == len(ClipSampler(StackDataset(dataset()))) == 21


def test_no_clips() -> None:
    with pytest.raises(ValueError, match="clips is empty"):
        FrameDataset(source, clips=[])
    with pytest.raises(ValueError, match="all 21 clips have less than the 13 frames"):
        FrameDataset(source, length=13, short="skip")
