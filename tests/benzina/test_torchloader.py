"""Benzina's DataLoader: torch's samplers and collation with the pictures of our loader."""

import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is optional")
pytest.importorskip("av", reason="pictures are decoded by PyAV")

from bloscpack import benzina  # noqa: E402
from bloscpack.benzina.codec.planes import warp_planes  # noqa: E402
from bloscpack.benzina.transforms import (  # noqa: E402
    IDENTITY,
    ConstantColorTransform,
    ConstantOOBTransform,
    RandomResizedCrop,
)
from bloscpack.exceptions import TruncatedError, UnsupportedError  # noqa: E402

from ..conftest import REPOSITORY  # noqa: E402
from . import vectors  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
MINI = "mini12.bzna"
COUNT = 12
SHAPE = (24, 32)


@pytest.fixture(scope="module")
def path() -> Path:
    vectors.manifest()
    return vectors.FOLDER / MINI


def crops(dataset: Any, batch_size: int = 5, **options: Any) -> Any:
    warp = options.pop("warp_transform", RandomResizedCrop())
    return benzina.DataLoader(
        dataset, SHAPE, batch_size=batch_size, warp_transform=warp, device="cpu", **options
    )


def joined(batches: Any) -> tuple[np.ndarray[Any, Any], list[int]]:
    images, targets = zip(*batches, strict=True)
    return torch.cat(images).numpy(), torch.cat(targets).tolist()


def test_the_signature_is_benzinas() -> None:
    parameters = inspect.signature(benzina.DataLoader).parameters.values()
    assert ", ".join(parameter.name for parameter in parameters) == (
        "dataset, shape, path, batch_size, shuffle, sampler, batch_sampler, collate_fn, drop_last, "
        "timeout, device, multibuffering, seed, bias_transform, norm_transform, warp_transform"
    )
    defaults = {each.name: each.default for each in parameters}
    assert defaults.pop("collate_fn") is torch.utils.data.default_collate
    assert defaults == {
        **dict.fromkeys(("dataset", "shape"), inspect.Parameter.empty),
        **dict.fromkeys(("path", "sampler", "batch_sampler", "device", "seed")),
        **dict.fromkeys(("bias_transform", "norm_transform", "warp_transform")),
        "batch_size": 1,
        "shuffle": False,
        "drop_last": False,
        "timeout": 0,
        "multibuffering": 3,
    }


def test_pixels_and_targets_are_those_of_our_loader(mini: benzina.Dataset) -> None:
    loader = crops(mini, seed=9, norm_transform=0.5, bias_transform=(1, 2, 3))
    assert isinstance(loader, torch.utils.data.DataLoader)
    assert (loader.num_workers, len(loader), loader.shape) == (0, 3, SHAPE)
    ours = benzina.Loader(
        mini, SHAPE, 5, seed=9, warp=RandomResizedCrop(), norm=0.5, bias=(1, 2, 3)
    )
    for _ in range(2):  # epochs
        batches, expected = list(loader), list(ours)
        assert len(batches) == 3
        for (images, targets), (arrays, same) in zip(batches, expected, strict=True):
            assert (images.dtype, targets.dtype) == (torch.float32, torch.int64)
            np.testing.assert_array_equal(images.numpy(), arrays)
            np.testing.assert_array_equal(targets.numpy(), same)


def test_the_default_warp_shows_the_corner(mini: benzina.Dataset) -> None:
    ((images, _),) = benzina.DataLoader(mini, SHAPE, batch_size=12, device="cpu")
    expected = np.empty((3, *SHAPE), np.float32)
    warp_planes(mini[3].frame("bzna_thumb"), expected, IDENTITY, padding="edge")
    np.testing.assert_array_equal(images[3].numpy(), expected)


@pytest.mark.parametrize("split", [None, "part"])
def test_benzinas_own_datasets(path: Path, mini: benzina.Dataset, split: str | None) -> None:
    dataset: Any = benzina.ClassificationDataset(path)
    if split:
        dataset = torch.utils.data.Subset(dataset, range(2, 7))
    found, targets = joined(crops(dataset, warp_transform=None))
    expected, same = joined(crops(mini[2:7] if split else mini, warp_transform=None))
    np.testing.assert_array_equal(found, expected)
    assert targets == same


def test_pictures_alone(path: Path) -> None:
    from bloscpack.benzina.original import originaldatasets

    batches = list(crops(originaldatasets.Dataset(path)))
    assert [len(batch) for batch in batches] == [1, 1, 1]
    assert sum(len(images) for (images,) in batches) == COUNT


def test_the_track_is_the_one_of_the_item(path: Path, mini: benzina.Dataset) -> None:
    dataset = benzina.ClassificationDataset(path, input_label="bzna_input")
    found, _ = joined(crops(dataset, seed=1))
    ours = benzina.Loader(mini, SHAPE, 12, seed=1, track="bzna_input", warp=RandomResizedCrop())
    ((expected, _),) = ours
    np.testing.assert_array_equal(found, expected)


def test_several_datasets_as_one(mini: benzina.Dataset) -> None:
    both = torch.utils.data.ConcatDataset([mini, mini[:5]])
    found, targets = joined(crops(both, 4, warp_transform=None))
    assert len(found) == COUNT + 5
    np.testing.assert_array_equal(found[COUNT:], found[:5])
    assert targets[COUNT:] == targets[:5]


def test_order_and_batches_are_those_of_torchs_samplers(mini: benzina.Dataset) -> None:
    whole, targets = joined(crops(mini, seed=4))
    torch.manual_seed(1)
    found, shuffled = joined(crops(mini, seed=4, shuffle=True))
    torch.manual_seed(1)
    order = list(torch.utils.data.RandomSampler(mini))
    assert shuffled == [targets[index] for index in order]
    np.testing.assert_array_equal(found, whole[order])
    chosen = [[3], [7, 1, 2], [5, 0]]
    batches = list(benzina.DataLoader(mini, SHAPE, batch_sampler=chosen, device="cpu"))
    assert [len(images) for images, _ in batches] == [1, 3, 2]
    with pytest.raises(TypeError, match="'float' object"):
        joined(crops(mini, seed=4, sampler=[1.5]))
    found, some = joined(crops(mini, seed=4, sampler=[11, 0, 4]))
    np.testing.assert_array_equal(found, whole[[11, 0, 4]])
    assert some == [targets[11], targets[0], targets[4]]
    assert len(list(crops(mini, drop_last=True))) == 2


def test_a_sample_that_comes_again_is_drawn_for_again(mini: benzina.Dataset) -> None:
    (images, _), (more, _) = crops(mini, 2, seed=4, sampler=[6, 6, 6])
    whole, _ = joined(crops(mini, seed=4))
    np.testing.assert_array_equal(images[0].numpy(), whole[6])
    assert not torch.equal(images[0], images[1])
    assert not torch.equal(images[1], more[0])


def test_indices_that_count_from_the_end(mini: benzina.Dataset) -> None:
    last = len(mini) - 1
    ((negative, _),) = crops(mini, 2, seed=4, sampler=[-1, last])
    ((positive, _),) = crops(mini, 2, seed=4, sampler=[last, -1])
    assert torch.equal(negative, positive)


def test_collation_is_the_callers(mini: benzina.Dataset) -> None:
    def collate(aux: list[Any]) -> tuple[list[Any], str]:
        assert all(isinstance(each, tuple) for each in aux)
        return [target for (target,) in aux], "more"

    batches = list(crops(mini, 12, collate_fn=collate))
    assert batches[0][1] == mini.targets.tolist()
    assert batches[0][2] == "more"


def test_another_file_at_the_same_places(path: Path, mini: benzina.Dataset, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    for dataset in (mini, benzina.ClassificationDataset(path)):
        np.testing.assert_array_equal(
            joined(crops(dataset, seed=2, path=copy))[0], joined(crops(dataset, seed=2))[0]
        )
    copy.write_bytes(path.read_bytes()[: mini[3].location + 5])
    batches = iter(crops(mini, 3, path=copy))
    next(batches)
    with pytest.raises(TruncatedError, match=r"sample 3: bytes \d+ to \d+ are not all in the file"):
        next(batches)
    with pytest.raises(FileNotFoundError):
        next(iter(crops(mini, path=tmp_path / "none")))


def test_the_limit_of_pixels_of_another_file(path: Path) -> None:
    with benzina.open(path, max_pixels=1000) as dataset:
        for other in (None, path):
            loader = benzina.DataLoader(dataset, SHAPE, other, device="cpu")
            with pytest.raises(UnsupportedError, match="limit of 1000 pixels"):
                next(iter(loader))


def test_transforms_may_be_set(mini: benzina.Dataset) -> None:
    loader = benzina.DataLoader(
        mini, 8, batch_size=12, warp_transform=(1, 0, -4, 0, 1, -4, 0, 0, 1), device="cpu"
    )
    loader.oob_transform = ConstantOOBTransform(-3)
    ((images, _),) = loader
    assert (images[:, :, :3, :3] == -3).all()
    loader.color_transform = ConstantColorTransform(2)
    ((other, _),) = loader
    assert not torch.equal(images, other)


def test_the_draws_of_the_reference(mini: benzina.Dataset) -> None:
    warp = RandomResizedCrop(compat="benzina")
    found, _ = joined(crops(mini, seed=77, warp_transform=warp))
    ours = benzina.Loader(mini, SHAPE, 12, seed=77, warp=RandomResizedCrop(), compat="benzina")
    ((expected, _),) = ours
    np.testing.assert_array_equal(found, expected)


def test_a_missing_seed_is_that_of_torch(mini: benzina.Dataset) -> None:
    seeds = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        seeds.append(benzina.DataLoader(mini, 8, device="cpu").seed)
    assert seeds[0] == seeds[1] != seeds[2]


def test_batches_share_no_memory(mini: benzina.Dataset) -> None:
    batches = [images for images, _ in crops(mini, 2)]
    places = {images.untyped_storage().data_ptr() for images in batches}
    assert len(places) == len(batches) == 6


def test_a_pass_that_is_left_ends_its_threads(mini: benzina.Dataset) -> None:
    for _ in crops(mini, 1):
        break


def test_a_loader_pickles(mini: benzina.Dataset) -> None:
    loader = crops(mini, seed=5)
    other = pickle.loads(pickle.dumps(loader))
    np.testing.assert_array_equal(joined(other)[0], joined(loader)[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": None}, "pictures come in batches"),
        ({"multibuffering": 0}, "multibuffering must be at least 1"),
        ({"timeout": -1}, "timeout"),
        ({"shape": 0}, "shape must be a positive int"),
        ({"norm_transform": (1, 2)}, "norm must be 3 numbers"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_arguments_that_cannot_be(
    mini: benzina.Dataset, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        benzina.DataLoader(mini, **{"shape": 8, "device": "cpu", **options})


def test_a_dataset_of_something_else() -> None:
    loader = benzina.DataLoader([1, 2, 3], 8, device="cpu")
    with pytest.raises(TypeError, match="item 0 of the dataset has type int: it must be a sample"):
        list(loader)


def test_torch_is_imported_when_it_is_named() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from bloscpack import benzina\n"
        "try: benzina.DataLoader\n"
        "except ImportError as err: print(err)\n"
        "assert not hasattr(benzina, 'Nothing')\n"
        "print('av' in sys.modules, 'PIL' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=240
    )
    assert run.stdout.splitlines() == [
        'Benzina\'s DataLoader needs torch: install it, or "bloscpack[torch]"',
        "False False",
    ], run.stderr
