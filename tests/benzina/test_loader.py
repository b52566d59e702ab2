"""The loader returns every sample once, with the same pixels for any number of threads."""

import gc
import itertools
import json
import multiprocessing
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import benzina
from bloscpack.benzina.codec.planes import warp_planes
from bloscpack.benzina.transforms import (
    CenterResizedCrop,
    ConstantWarpTransform,
    RandomResizedCrop,
    SimilarityTransform,
    WarpTransform,
)
from bloscpack.exceptions import CodecError, NotFoundError

from .. import threadlist
from . import vectors

pytest.importorskip("av", reason="pictures are decoded by PyAV")
pytestmark = pytest.mark.usefixtures("no_thread_is_left")

MINI, BASE = "mini12.bzna", "base5.bzna"
COUNT = 12
SHAPE = (24, 32)

Arrays = list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def by_index(loader: benzina.Loader, batches: Arrays) -> dict[int, bytes]:
    """Return the pixels of each sample that the loader returned, by position."""
    state = loader._sampler.state_dict(0)  # the order of the current pass
    order = [int(index) for batch in _order(loader, state) for index in batch]
    pictures = [image.tobytes() for images, _ in batches for image in images]
    assert len(pictures) == len(set(order[: len(pictures)]))
    return dict(zip(order, pictures, strict=False))


def _order(loader: benzina.Loader, state: dict[str, Any]) -> Any:
    from bloscpack.frames.sampler import ClipSampler

    batch_size = loader._sampler._batch_size
    sampler = ClipSampler(
        state["length"], seed=loader.seed, shuffle=state["shuffle"], batch_size=batch_size
    )
    sampler.set_epoch(state["epoch"])
    return sampler


def random_loader(dataset: Any, batch_size: int = 5, **options: Any) -> benzina.Loader:
    warp = SimilarityTransform((0.2, 1.0), degrees=30, flip_h=0.5, resize=True, random_crop=True)
    return benzina.Loader(dataset, SHAPE, batch_size, seed=5, warp=warp, **options)


def test_batches_of_a_dataset_in_order(mini: benzina.Dataset) -> None:
    loader = benzina.Loader(mini, SHAPE, 5)
    assert len(loader) == 3
    assert loader.shape == SHAPE
    batches = list(loader)
    assert [images.shape for images, _ in batches] == [
        (5, 3, 24, 32),
        (5, 3, 24, 32),
        (2, 3, 24, 32),
    ]
    for images, targets in batches:
        assert images.dtype == np.float32
        assert targets.dtype == np.int64
        assert images.flags.c_contiguous
    expected = vectors.facts(MINI)["logical"]["targets"]
    found = np.concatenate([targets for _, targets in batches]).tolist()
    assert found == expected + [-1] * (COUNT - len(expected))


@pytest.mark.parametrize("shape", [(8, 9), [np.int64(8), 9], np.array([8, 9]), np.int32(8)])
def test_shapes_of_numpy(mini: benzina.Dataset, shape: Any) -> None:
    assert benzina.Loader(mini, shape).shape == ((8, 8) if np.ndim(shape) == 0 else (8, 9))


def test_pixels_are_those_of_the_kernel(mini: benzina.Dataset) -> None:
    bias, norm = (10.0, 20.0, 30.0), (0.5, 0.25, 2.0)
    loader = benzina.Loader(mini, SHAPE, 5, bias=bias, norm=norm, oob=(1, 2, 3), threads=2)
    place = 0
    for images, _ in loader:
        for image in images:
            planes = mini[place].frame("bzna_thumb")
            warp = CenterResizedCrop()(place, planes.shape, SHAPE, np.random.default_rng(0))
            expected = np.empty((3, *SHAPE), np.float32)
            warp_planes(
                planes, expected, warp, bias=bias, scale=norm, outside=(1, 2, 3), padding="edge"
            )
            np.testing.assert_array_equal(image, expected)
            place += 1
    assert place == COUNT


@pytest.fixture(scope="module")
def reference(mini: benzina.Dataset) -> dict[int, bytes]:
    loader = random_loader(mini, 1, threads=1)
    return by_index(loader, list(loader))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4, 12, 20])
def test_nothing_but_the_key_matters_to_a_picture(
    mini: benzina.Dataset, reference: dict[int, bytes], threads: int, shuffle: bool, batch_size: int
) -> None:
    loader = random_loader(mini, batch_size, threads=threads, shuffle=shuffle, prefetch=1)
    assert by_index(loader, list(loader)) == reference


def test_epochs_differ_and_come_again(mini: benzina.Dataset) -> None:
    loader = random_loader(mini, shuffle=True)
    first, second = list(loader), list(loader)
    assert loader.epoch == 1
    assert [targets.tolist() for _, targets in first] != [targets.tolist() for _, targets in second]
    again = random_loader(mini, shuffle=True)
    again.set_epoch(1)
    assert_equal(list(again), second)
    pixels = by_index(again, second)
    loader.set_epoch(0)
    assert_equal(list(loader), first)
    assert all(pixels[index] != image for index, image in by_index(loader, first).items())


def assert_equal(found: Arrays, expected: Arrays) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])


def test_a_missing_seed_is_drawn(mini: benzina.Dataset) -> None:
    first, second = (benzina.Loader(mini, SHAPE, shuffle=True) for _ in range(2))
    assert first.seed != second.seed
    again = benzina.Loader(mini, SHAPE, shuffle=True, seed=first.seed)
    assert_equal(list(again), list(first))


def test_batches_share_no_memory(mini: benzina.Dataset) -> None:
    batches = [images for images, _ in random_loader(mini, 4, threads=2)]
    for one, other in itertools.combinations(batches, 2):
        assert not np.shares_memory(one, other)
    kept = [images.copy() for images in batches]
    list(random_loader(mini, 4, threads=2))
    for one, other in zip(batches, kept, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_last_small_batch_is_left_out(mini: benzina.Dataset) -> None:
    loader = benzina.Loader(mini, SHAPE, 5, drop_last=True)
    assert len(loader) == 2
    assert [len(images) for images, _ in loader] == [5, 5]


def test_views_are_loaded(mini: benzina.Dataset, reference: dict[int, bytes]) -> None:
    with benzina.open(vectors.FOLDER / MINI, splits={"val": (3, 8)}) as dataset:
        (images, targets), *rest = benzina.Loader(dataset.split("val"), SHAPE, 8)
        assert targets.tolist() == dataset.targets[3:8].tolist()
    assert not rest
    ((whole, _),) = benzina.Loader(mini, SHAPE, 12)
    np.testing.assert_array_equal(images, whole[3:8])
    ((backwards, _),) = benzina.Loader(mini[::-1], SHAPE, 12)
    np.testing.assert_array_equal(backwards, whole[::-1])


def test_the_full_pictures_are_loaded(mini: benzina.Dataset) -> None:
    loader = benzina.Loader(mini, (8, 8), 4, track="bzna_input", warp=Spy(), threads=1)
    list(loader)
    assert Spy.shapes == [tuple(sample.shape[1:3]) for sample in mini.samples()]


class Spy(WarpTransform):
    """A warp that records its arguments."""

    shapes: list[tuple[int, int]] = []  # noqa: RUF012

    def __call__(self, index: int, in_shape: Any, out_shape: Any, rng: Any) -> Any:
        if not index:
            self.shapes.clear()
        self.shapes.append(in_shape)
        assert out_shape == (8, 8)
        return (1, 0, 0, 0, 1, 0, 0, 0, 1)


def test_parts_of_an_epoch_make_the_whole(mini: benzina.Dataset) -> None:
    parts = [
        np.concatenate(
            [images for images, _ in random_loader(mini, shuffle=True, rank=rank, world_size=2)]
        )
        for rank in range(2)
    ]
    ((whole, _),) = random_loader(mini, 12, shuffle=True)
    np.testing.assert_array_equal(parts[0], whole[::2])
    np.testing.assert_array_equal(parts[1], whole[1::2])


@pytest.mark.parametrize("threads", [1, 3])
def test_a_pass_is_taken_up_where_it_was_left(mini: benzina.Dataset, threads: int) -> None:
    whole = list(random_loader(mini, 2, shuffle=True, threads=threads))
    loader = random_loader(mini, 2, shuffle=True, threads=threads, prefetch=4)
    taken = list(itertools.islice(loader, 2))
    state = json.loads(json.dumps(loader.state_dict()))
    assert state["position"] == 4
    other = benzina.Loader(mini, SHAPE, 2, shuffle=True, warp=loader._recipe.warp)
    other.load_state_dict(state)
    assert other.seed == 5
    assert_equal(taken + list(other), whole)
    assert other.state_dict()["position"] == COUNT
    # And the next epoch.
    list(loader)
    assert_equal(list(other), list(random_epoch(mini, 1)))


def random_epoch(dataset: benzina.Dataset, epoch: int) -> benzina.Loader:
    loader = random_loader(dataset, 2, shuffle=True)
    loader.set_epoch(epoch)
    return loader


def test_a_state_of_something_else_is_refused(mini: benzina.Dataset) -> None:
    loader = random_loader(mini)
    for state in (
        {},
        {**loader.state_dict(), "length": 5},
        {**loader.state_dict(), "shuffle": True},
        random_loader(mini, 3).state_dict(),
        random_loader(mini, padding="clean").state_dict(),
        random_loader(mini, norm=0.5).state_dict(),
    ):
        with pytest.raises(ValueError):
            loader.load_state_dict(state)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset in which picture 7 cannot be decoded."""
    data = bytearray(vectors.data(MINI))
    with benzina.open(vectors.FOLDER / MINI) as dataset:
        sample = dataset[7]
        track = sample.layout.tracks["bzna_thumb"]
        start = sample.location + track.offset
    data[start + 4 : start + track.nbytes] = bytes(track.nbytes - 4)
    path = tmp_path_factory.mktemp("damaged") / "damaged.bzna"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_names_its_sample_and_comes_in_its_turn(damaged: Path, threads: int) -> None:
    name = vectors.facts(MINI)["logical"]["filenames"][7]
    with benzina.open(damaged) as dataset:
        batches = iter(benzina.Loader(dataset, SHAPE, 3, threads=threads))
        assert len(next(batches)[0]) == len(next(batches)[0]) == 3
        with pytest.raises(CodecError) as info:
            next(batches)
        assert str(damaged) in str(info.value)
        assert f"sample 7 ({name!r}): " in str(info.value)
        assert str(info.value).count("sample 7") == 1
        assert next(batches, None) is None


def test_an_error_of_a_transform_names_the_sample(mini: benzina.Dataset) -> None:
    def warp(index: int, *args: Any) -> Any:
        return [0] * (8 if index == 4 else 9)

    with pytest.raises(ValueError, match="the warp transform returned 8 numbers, not 9") as info:
        list(benzina.Loader(mini, SHAPE, 12, warp=warp))
    assert info.value.__notes__[0].startswith("This was sample 4 (")


def test_a_track_that_is_not_there(mini: benzina.Dataset) -> None:
    with pytest.raises(NotFoundError, match=r"sample 0 \(.*no track 'bzna_depth'"):
        list(benzina.Loader(mini, SHAPE, track="bzna_depth"))


def test_a_pass_that_is_left_ends_its_threads(mini: benzina.Dataset) -> None:
    before = threadlist.running()
    for _ in benzina.Loader(mini, SHAPE, threads=3):
        assert threadlist.running() - before
        break
    batches = iter(benzina.Loader(mini, SHAPE, threads=3))
    next(batches)
    del batches
    gc.collect()
    assert threadlist.running() <= before


def test_an_interrupt_ends_the_pass(mini: benzina.Dataset) -> None:
    def warp(index: int, *args: Any) -> Any:
        if index == 3:
            signal.raise_signal(signal.SIGINT)  # Python handles it in the main thread
        return (1, 0, 0, 0, 1, 0, 0, 0, 1)

    with pytest.raises(KeyboardInterrupt):
        list(benzina.Loader(mini, SHAPE, 12, threads=2, warp=warp))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_loader_in_another_process(mini: benzina.Dataset, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"start method {method} is not available")
    loader = random_loader(mini, 12, threads=2)
    batches = iter(loader)
    expected, _ = next(batches)
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=load_first, args=(loader, sender))
    process.start()
    sender.close()
    assert receiver.poll(240)
    np.testing.assert_array_equal(receiver.recv(), expected)
    process.join(240)
    assert process.exitcode == 0
    process.close()
    batches.close()  # type: ignore[attr-defined]


def load_first(loader: benzina.Loader, sender: Any) -> None:
    loader.set_epoch(0)
    sender.send(next(iter(loader))[0])


def test_a_pass_stays_in_its_process(mini: benzina.Dataset) -> None:
    batches = iter(random_loader(mini, 1, threads=2))
    next(batches)
    child = os.fork()
    if child == 0:
        signal.alarm(240)
        try:
            next(batches)
        except RuntimeError as err:
            os._exit(7 if "forked child" in str(err) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(list(batches)) == COUNT - 1


def test_a_loader_pickles(mini: benzina.Dataset) -> None:
    loader = random_loader(mini, shuffle=True)
    next(iter(loader))
    loader.set_epoch(3)
    other = pickle.loads(pickle.dumps(loader))
    assert_equal(list(other), list(loader))


def test_one_stream_for_all_as_in_the_reference(mini: benzina.Dataset) -> None:
    crop = RandomResizedCrop()
    loader = benzina.Loader(mini, SHAPE, 5, seed=77, warp=crop, compat="benzina", threads=3)
    master = np.random.RandomState(77)
    mine = RandomResizedCrop(compat="benzina")
    for _ in range(2):
        rng = np.random.RandomState(master.randint(2**32))
        expected = np.empty((COUNT, 3, *SHAPE), np.float32)
        for place in range(COUNT):
            planes = mini[place].frame("bzna_thumb")
            # The shape of the picture with the width first, and that of the output unchanged.
            warp = mine(place, planes.shape[::-1], SHAPE, rng)
            warp_planes(planes, expected[place], warp, padding="edge")
        found = np.concatenate([images for images, _ in loader])
        np.testing.assert_array_equal(found, expected)
    assert crop.random_crop
    assert crop.compat is None


def test_a_pass_in_the_order_of_the_reference_is_whole(mini: benzina.Dataset) -> None:
    # The transform requests it, too.
    warp = RandomResizedCrop(compat="benzina")
    loader = benzina.Loader(mini, SHAPE, 5, seed=7, warp=warp)
    state = loader.state_dict()
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="cannot resume in the middle"):
        loader.load_state_dict({**state, "position": 5})
    with pytest.raises(ValueError, match=r"[Ss]eed"):
        benzina.Loader(mini, SHAPE, seed=1 << 32, warp=warp)
    assert benzina.Loader(mini, SHAPE, warp=warp).seed < 1 << 32


def test_interpolation_padding_and_colours(mini: benzina.Dataset) -> None:
    def load(**options: Any) -> np.ndarray[Any, Any]:
        warp = ConstantWarpTransform((0.5, 0, -1.25, 0, 0.5, -1.25, 0, 0, 1))
        ((images, _),) = benzina.Loader(mini, (64, 64), 12, warp=warp, oob=-7, **options)
        found: np.ndarray[Any, Any] = images
        return found

    edge, clean, smear = (load(padding=padding) for padding in ("edge", "clean", "smear"))
    # Coordinates -1.25, -0.75, -0.25: the third reaches the picture's first pixel.
    assert (edge[:, :, 1] == -7).all()
    assert (edge[0, :, 2, 2:] != -7).all()
    assert (clean[:, :, 2] == -7).all()
    assert (smear == -7).sum() < (clean == -7).sum() < (edge == -7).sum() + clean.size
    assert not np.array_equal(load(interpolation="nearest"), edge)
    assert not np.array_equal(load(color=2), edge)
    np.testing.assert_array_equal(load(color=lambda *_: (2,)), load(color=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": 0}, "shape must be a positive int"),
        ({"shape": (1, 2, 3)}, "shape must be a positive int"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"prefetch": 0}, "prefetch must be at least 1"),
        ({"seed": -1}, "seed must be"),
        ({"padding": "none"}, "padding must be one of clean, smear, edge"),
        ({"interpolation": "cubic"}, "interpolation must be one of bilinear, nearest"),
        ({"compat": "ffcv"}, "compat must be None or 'benzina'"),
        ({"warp": (1, 2)}, "warp must be 9 numbers, not 2"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_options_that_cannot_be(
    mini: benzina.Dataset, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        benzina.Loader(mini, **{"shape": 8, **options})


def test_an_empty_view_has_no_batches(mini: benzina.Dataset) -> None:
    loader = benzina.Loader(mini[:0], 8, 4)
    assert len(loader) == 0
    assert list(loader) == []
