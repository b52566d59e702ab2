"""Windows of clips as items: their content, how they are read, and that they are repeatable."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import bloscpack as bp  # noqa: E402
from bloscpack.exceptions import FileChangedError, NotFoundError  # noqa: E402
from bloscpack.frames.sampler import ClipSampler  # noqa: E402
from bloscpack.integrations.torch import FrameDataset, collate_clips  # noqa: E402

from ..frames.memory_source import MemorySourceOfClips  # noqa: E402
from ..processes.scenario import run  # noqa: E402

LENGTHS = {"a": 10, "b": 3, "c": 7}


def clips() -> dict[str, np.ndarray]:
    """Return frames of 2 x 3 pixels; every byte of a clip is different."""
    return {
        id_: np.arange(count * 18, dtype=np.uint8).reshape(count, 2, 3, 3)
        for id_, count in LENGTHS.items()
    }


@pytest.fixture
def source() -> MemorySourceOfClips:
    return MemorySourceOfClips(
        clips(), {"a": {"label": 4, "who": ["x"]}, "b": {"label": 5}, "c": {"label": 6}}
    )


def test_an_item_is_a_whole_clip_by_default(source: MemorySourceOfClips) -> None:
    dataset = FrameDataset(source)
    assert len(dataset) == 3
    item = dataset[1]
    assert list(item) == ["frames", "id", "index", "start", "seed"]
    assert (item["id"], item["index"], item["start"]) == ("b", 1, 0)
    assert item["frames"].dtype == torch.uint8
    assert np.array_equal(item["frames"], clips()["b"])
    assert dataset[-1]["index"] == 2
    assert dataset.source is source
    for wrong in (3, -4):
        with pytest.raises(IndexError, match=f"item {wrong} of a dataset of 3"):
            dataset[wrong]
    assert len(list(dataset)) == 3  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("start", "expected"),
    [("first", [0, 2, 4]), ("center", [2, 4, 6])],
)
def test_windows_with_a_stride(
    source: MemorySourceOfClips, start: Any, expected: list[int]
) -> None:
    item = FrameDataset(source, length=3, stride=2, start=start)[0]
    assert item["start"] == expected[0]
    assert np.array_equal(item["frames"], clips()["a"][expected])


def test_random_windows_are_even_and_repeatable(source: MemorySourceOfClips) -> None:
    dataset = FrameDataset(source, length=3, stride=2, seed=3)
    starts = []
    for epoch in range(600):
        dataset.set_epoch(epoch)
        item = dataset[0]
        assert np.array_equal(item["frames"], clips()["a"][item["start"] :][:5:2])
        starts.append(item["start"])
    counts = np.bincount(starts, minlength=6)
    assert len(counts) == 6
    assert abs(counts - 100).max() < 50
    other = FrameDataset(source, length=3, stride=2, seed=3)
    other.set_epoch(599)
    assert other[0]["start"] == starts[-1]
    assert other[0]["seed"] == item["seed"]


def test_each_item_draws_for_itself() -> None:
    same = {f"clip {number}": clips()["a"] for number in range(40)}
    items = FrameDataset(MemorySourceOfClips(same), length=1).__getitems__(range(40))
    assert len({item["seed"] for item in items}) == 40
    assert all(0 <= item["seed"] < 1 << 63 for item in items)
    assert len({item["start"] for item in items}) > 5


def test_the_epoch_comes_with_the_index(source: MemorySourceOfClips) -> None:
    dataset = FrameDataset(source, length=2)
    sampler = ClipSampler(dataset, shuffle=False)
    passes = [[dataset[index]["start"] for index in sampler] for _ in range(5)]
    for epoch, starts in enumerate(passes):
        dataset.set_epoch(epoch)
        assert [dataset[index]["start"] for index in range(3)] == starts
    assert len(set(map(tuple, passes))) > 2


def test_every_window(source: MemorySourceOfClips) -> None:
    dataset = FrameDataset(source, length=2, stride=2, start="every", hop=2)
    found = [(item["id"], item["start"]) for item in map(dataset.__getitem__, range(len(dataset)))]
    assert found == [
        *(("a", start) for start in (0, 2, 4, 6)),
        ("b", 0),
        *(("c", start) for start in (0, 2, 4)),
    ]
    side_by_side = FrameDataset(source, length=2, start="every")
    assert len(side_by_side) == 5 + 1 + 3
    assert [dataset[k]["index"] for k in (-1, 3)] == [7, 3]


@pytest.mark.parametrize(
    ("short", "expected"), [("repeat_last", [0, 2, 2, 2]), ("wrap", [0, 2, 1, 0])]
)
def test_short_clips_are_filled(
    source: MemorySourceOfClips, short: Any, expected: list[int]
) -> None:
    item = FrameDataset(source, length=4, stride=2, short=short)[1]
    assert np.array_equal(item["frames"], clips()["b"][expected])


def test_short_clips_are_skipped_or_refused(source: MemorySourceOfClips) -> None:
    dataset = FrameDataset(source, length=4, short="skip", start="first")
    assert [dataset[index]["id"] for index in range(len(dataset))] == ["a", "c"]
    with pytest.raises(ValueError, match="clip 'b': it has 3 frames, and 2 with a stride of 3"):
        FrameDataset(source, length=2, stride=3, short="error")[1]


def test_clips_without_frames() -> None:
    source = MemorySourceOfClips({"full": clips()["b"], "empty": np.empty((0, 2, 2), np.uint8)})
    with pytest.raises(ValueError, match="clip 'empty': it has no frames"):
        FrameDataset(source)[1]
    assert len(FrameDataset(source, short="skip")) == 1


def test_chosen_clips(source: MemorySourceOfClips) -> None:
    dataset = FrameDataset(source, clips=["c", "a", "c"], length=1)
    assert [dataset[index]["id"] for index in range(3)] == ["c", "a", "c"]
    with pytest.raises(NotFoundError, match="clip 'zebra' is not in"):
        FrameDataset(source, clips=["a", "zebra"])


def test_labels_and_metadata(source: MemorySourceOfClips) -> None:
    assert [FrameDataset(source, label="label")[k]["label"] for k in range(3)] == [4, 5, 6]
    item = FrameDataset(source, label=len, with_meta=True)[0]
    assert (item["label"], item["meta"]) == (2, {"label": 4, "who": ["x"]})
    message = r"clip 'b': its metadata lack 'who', and have \['label'\]"
    with pytest.raises(NotFoundError, match=message):
        FrameDataset(source, label="who")[1]


def test_layouts(source: MemorySourceOfClips) -> None:
    frames = clips()["b"]
    for layout, axes in [("tchw", (0, 3, 1, 2)), ("cthw", (3, 0, 1, 2))]:
        item = FrameDataset(source, layout=layout)[1]
        assert np.array_equal(item["frames"], frames.transpose(axes))
    gray = MemorySourceOfClips({"g": frames[..., 0]})
    assert FrameDataset(gray)[0]["frames"].shape == (3, 2, 3)
    assert FrameDataset(gray, layout="tchw")[0]["frames"].shape == (3, 1, 2, 3)
    flat = MemorySourceOfClips({"g": frames[:, 0, 0]})
    with pytest.raises(ValueError, match=r"layout 'tchw' is for frames of .* not \(3,\)"):
        FrameDataset(flat, layout="tchw")[0]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "<u2", ">u2", ">i4", "float16", ">f8"])
def test_dtypes(dtype: str) -> None:
    frames = (np.arange(12).reshape(2, 2, 3) % 5).astype(dtype)
    tensor = FrameDataset(MemorySourceOfClips({"x": frames}))[0]["frames"]
    assert str(tensor.dtype) == f"torch.{np.dtype(dtype).name}"
    assert np.array_equal(tensor.numpy(), frames)


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    frames = np.arange(12).reshape(2, 2, 3).astype(ml_dtypes.bfloat16)
    tensor = FrameDataset(MemorySourceOfClips({"x": frames}))[0]["frames"]
    assert tensor.dtype == torch.bfloat16
    assert np.array_equal(tensor.float(), frames.astype("f4"))


def test_a_batch_is_one_read(source: MemorySourceOfClips) -> None:
    dataset = FrameDataset(source, length=3, start="first")
    items = dataset.__getitems__([2, 0, 1, 0])
    assert source.batches == [4]
    # Clips and their first frames are close to each other: sorted by offset, they are one read.
    assert len(source.content.reads) == 1
    assert [item["id"] for item in items] == ["c", "a", "b", "a"]
    for item in items:
        assert np.array_equal(item["frames"], clips()[item["id"]][:3])
    items[1]["frames"].zero_()
    assert np.array_equal(items[3]["frames"], clips()["a"][:3])


def test_a_batch_of_several_shapes(source: MemorySourceOfClips) -> None:
    batch = collate_clips(FrameDataset(source).__getitems__([0, 1]))
    assert [frames.shape[0] for frames in batch["frames"]] == [10, 3]
    assert batch["id"] == ["a", "b"]
    assert batch["index"].tolist() == [0, 1]
    assert source.batches == [2]


@pytest.mark.parametrize("layout", ["thwc", "tchw"])
def test_collating_a_batch_copies_nothing(source: MemorySourceOfClips, layout: str) -> None:
    items = FrameDataset(source, length=2, layout=layout, with_meta=True).__getitems__([2, 0, 1])
    batch = collate_clips(items)
    assert batch["frames"].data_ptr() == items[0]["frames"].data_ptr()
    assert torch.equal(batch["frames"], torch.stack([item["frames"] for item in items]))
    assert batch["meta"] == [item["meta"] for item in items]
    others = FrameDataset(source, length=2, layout=layout, with_meta=True).__getitems__([0, 1])
    for some in (items[1:], items[::-1], items[::2], [items[0]] * 2, [items[0], others[1]]):
        joined = collate_clips(some)["frames"]
        assert torch.equal(joined, torch.stack([item["frames"] for item in some]))


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.int64, np.bool_, int, bool])
def test_numbers_are_collated_as_torch_does(kind: Any) -> None:
    values = [kind(1700000000.125), kind(0)]
    found = collate_clips([{"x": value} for value in values])["x"]
    expected = torch.utils.data.default_collate(values)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)
    assert found.tolist() == values


def test_collating_transformed_items(source: MemorySourceOfClips) -> None:
    items = FrameDataset(source, length=2).__getitems__([0, 1])
    mixed = [items[0], {**items[1], "frames": items[1]["frames"].clone()}]
    for some in (mixed, [{**item, "frames": item["frames"].float()} for item in items]):
        expected = torch.stack([item["frames"] for item in some])
        assert torch.equal(collate_clips(some)["frames"], expected)
    different = [items[0], {**items[1], "frames": items[1]["frames"].float()}]
    assert isinstance(collate_clips(different)["frames"], list)


def test_collating_leaves_other_data_sets_as_they_are() -> None:
    rows, others = torch.zeros(6, 4), [torch.zeros(4) for _ in range(3)]
    for items in ([rows[2], rows[3]], [rows[5]], [others[0]], rows.unbind()):
        collate_clips([{"x": each} for each in items])["x"].add_(1)
    assert not rows.any()
    assert not others[0].any()


def test_collating_keeps_gradients_and_flags() -> None:
    weights = torch.ones(2, 3, requires_grad=True)
    collate_clips([{"x": row} for row in weights.unbind()])["x"].sum().backward()
    assert weights.grad is not None
    assert weights.grad.tolist() == [[1.0] * 3] * 2
    values = torch.tensor([[1j, 2j], [3j, 4j]])
    for rows in ([values[0].conj(), values[1]], [values[0], torch._neg_view(values[1])]):
        assert torch.equal(collate_clips([{"x": row} for row in rows])["x"], torch.stack(rows))
    sparse = torch.eye(3).to_sparse()
    assert collate_clips([{"x": sparse}] * 2)["x"].to_dense().sum() == 6


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ([{"a": 1}, {"a": 1, "b": 2}], ValueError, r"one has \['a'\], another \['a', 'b'\]"),
        ([{"a": 1, "b": 2}, {"a": 1}], ValueError, r"one has \['a', 'b'\], another \['a'\]"),
        ([(torch.zeros(2), 1)], TypeError, "must be dicts, not tuple: pass another collate_fn"),
    ],
)
def test_collating_loses_no_entry(items: list[Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        collate_clips(items)
    assert collate_clips([]) == {}


def test_default_collate_loses_no_entry(source: MemorySourceOfClips) -> None:
    items = FrameDataset(source, length=2).__getitems__([0, 1])
    items[1]["more"] = 1
    with pytest.raises(ValueError, match="the same entries"):
        torch.utils.data.default_collate(items)


@pytest.mark.parametrize("index", [1.5, "1", torch.tensor(1.5), slice(1), [0]])
def test_only_integers_are_items(source: MemorySourceOfClips, index: Any) -> None:
    dataset = FrameDataset(source, length=2)
    assert dataset[torch.tensor(1)]["id"] == dataset[np.uint8(1)]["id"] == "b"
    with pytest.raises(TypeError):
        dataset[index]


@pytest.mark.parametrize("seed", [-1, 1 << 64, 1.5, None])
def test_seeds_and_epochs_have_64_bits(source: MemorySourceOfClips, seed: Any) -> None:
    """Others would be taken modulo 2 ** 64, or fail in a worker."""
    error = ValueError if isinstance(seed, int) else TypeError
    with pytest.raises(error, match="seed must be"):
        FrameDataset(source, seed=seed)
    with pytest.raises(error, match="epoch must be"):
        FrameDataset(source).set_epoch(seed)


@pytest.mark.parametrize("given", [None, 3, lambda: None])
def test_sources_without_clips(given: Any) -> None:
    with pytest.raises(TypeError, match="source must be a path"):
        FrameDataset(given)


def test_collating_labels_above_int64() -> None:
    assert collate_clips([{"x": 1 << 63}, {"x": 3}]) == {"x": [1 << 63, 3]}


def test_transforms(source: MemorySourceOfClips) -> None:
    dataset = FrameDataset(source, length=2, transform=lambda item: item["frames"].float().mean())
    assert dataset[0].dtype == torch.float32
    assert len(dataset.__getitems__([0, 1])) == 2


class Opened:
    """Opens a source and counts how often."""

    count = 0

    def __call__(self) -> MemorySourceOfClips:
        type(self).count += 1
        return MemorySourceOfClips(clips())


def test_a_function_is_called_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Opened, "count", 0)
    dataset = FrameDataset(Opened(), length=2, seed=1)
    first = dataset[0]
    assert Opened.count == 1
    sent = pickle.dumps(dataset)
    assert b"MemorySource" not in sent
    copy = pickle.loads(sent)
    assert Opened.count == 1
    assert (copy[0]["start"], copy[0]["seed"]) == (first["start"], first["seed"])
    copy[1]
    assert Opened.count == 2
    monkeypatch.setattr(
        "bloscpack.integrations.training.itemreader.os.getpid", lambda: -5
    )  # as after a fork
    dataset[0]
    dataset[0]
    assert Opened.count == 3


def test_an_open_source_is_pickled(source: MemorySourceOfClips) -> None:
    copy = pickle.loads(pickle.dumps(FrameDataset(source, length=2)))
    assert copy.source is not source
    assert copy[2]["id"] == "c"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda source: FrameDataset(source, length=0), "length must be at least 1"),
        (lambda source: FrameDataset(source, stride=-1), "stride must be at least 1"),
        (lambda source: FrameDataset(source, start="last"), "start must be one of random, first"),
        (lambda source: FrameDataset(source, short="drop"), "short must be one of repeat_last"),
        (lambda source: FrameDataset(source, hop=2), "hop is the distance"),
        (lambda source: FrameDataset(source, start="every"), "needs a length"),
        (lambda source: FrameDataset(source, layout="hwc"), "layout must be one of thwc"),
    ],
)
def test_options_that_make_no_sense(
    source: MemorySourceOfClips, make: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(source)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_return_the_items_of_one_process(method: str, tmp_path: Any) -> None:
    if method not in torch.multiprocessing.get_all_start_methods():
        pytest.skip(f"the system does not {method}")
    run("tests.integrations.loaders", "same_order", tmp_path, method, "2", nthreads=None)


def test_paths_are_opened_where_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "clips"
    with bp.frames.create(path) as store:
        for id_, frames in clips().items():
            store.append(id_, frames, {"label": len(frames)})
    check_opened_where_read(path)


def check_opened_where_read(path: Path) -> None:
    """Send a dataset of `clips` at `path` to another process, in effect."""
    sent = pickle.dumps(FrameDataset(path, length=2, start="first", label="label"))
    assert len(sent) < 2000
    copy = pickle.loads(sent)
    assert [copy[k]["label"] for k in range(3)] == [10, 3, 7]
    with bp.frames.open(path) as source:
        assert np.array_equal(copy[2]["frames"], source["c"][:2])
    with pytest.raises(FileNotFoundError):
        FrameDataset(path.with_name("nothing"))


def test_a_pattern_is_expanded_once(tmp_path: Path) -> None:
    def write(name: str, value: int) -> None:
        with bp.frames.create(tmp_path / f"{name}.blp", overwrite=True) as store:
            store.append(name, np.full((8, 4, 6), value, "u1"))

    write("a", 1)
    write("c", 3)
    dataset = FrameDataset(str(tmp_path / "*.blp"), length=2)
    write("b", 2)
    sent = pickle.dumps(dataset)
    for each in (dataset, pickle.loads(sent), pickle.loads(pickle.dumps(pickle.loads(sent)))):
        assert [each[k]["id"] for k in range(len(each))] == ["a", "c"]
    write("c", 4)
    copy = pickle.loads(sent)  # no error here: a worker that is starting could not report it
    with pytest.raises(FileChangedError, match=r"c\.blp"):
        copy[0]


def test_options_for_urls_are_for_urls(source: MemorySourceOfClips) -> None:
    for where in (source, Opened()):
        with pytest.raises(ValueError, match="storage_options are for URLs"):
            FrameDataset(where, storage_options={"anon": True})
