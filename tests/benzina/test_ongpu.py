"""The torch warp compared with the kernel, on CPU tensors; NVDEC if it is available."""

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is optional")
pytest.importorskip("av", reason="pictures are decoded by PyAV")

from bloscpack import benzina  # noqa: E402
from bloscpack.benzina.codec.colour import PLANES, benzina_coefficients, coefficients  # noqa: E402
from bloscpack.benzina.codec.planes import Planes, warp_planes  # noqa: E402
from bloscpack.benzina.load import ongpu  # noqa: E402
from bloscpack.benzina.load.recipe import Numbers  # noqa: E402
from bloscpack.benzina.transforms import RandomResizedCrop, SimilarityTransform  # noqa: E402
from bloscpack.exceptions import CodecError, UnsupportedError  # noqa: E402

from . import vectors  # noqa: E402

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")
CPU = torch.device("cpu")
MINI = "mini12.bzna"


def random_planes(rng: np.random.Generator, chroma: int, shape: tuple[int, int]) -> Planes:
    """Return a smooth picture: in noise, the next float of a coordinate is another pixel."""
    height, width = shape
    down, across = [(1, 1), (2, 2), (1, 2), (1, 1)][chroma]

    def plane(rows: int, columns: int) -> Any:
        y, x = np.mgrid[:rows, :columns]
        first, second = rng.uniform(0.02, 0.3, 2)
        return (127.5 + 127 * np.sin(first * x + second * y)).astype(np.uint8)

    small = -(-height // down), -(-width // across)
    u, v = (None, None) if chroma == 0 else (plane(*small), plane(*small))
    clean = (2, 1, width - 5, height - 4)
    return Planes(plane(height, width), u, v, clean, chroma, 6, True)


WARPS = {
    "identity": (1, 0, 0, 0, 1, 0, 0, 0, 1),
    "smaller": (1.7, 0, 0.35, 0, 1.3, 0.15, 0, 0, 1),
    "flipped": (-0.6, 0, 40.2, 0, 0.8, -3.1, 0, 0, 1),
    "turned": (0.7, -0.5, 10, 0.5, 0.7, -5, 0, 0, 1),
    "perspective": (1, 0.2, 0, 0.1, 1, 0, 0.005, 0.003, 1),
    "nowhere": (1, 0, 0, 0, 1, 0, 0, 0, 0),
}


@pytest.mark.parametrize("warp", WARPS)
@pytest.mark.parametrize("chroma", [0, 1, 2, 3])
@pytest.mark.parametrize("padding", ["clean", "smear", "edge"])
def test_the_warp_is_the_kernels(warp: str, chroma: int, padding: str) -> None:
    planes = random_planes(np.random.default_rng(chroma), chroma, (39, 53))
    for nearest in (False, True):
        expected = np.full((3, 31, 37), np.nan, np.float32)
        options = {"padding": padding, "nearest": nearest}
        warp_planes(planes, expected, WARPS[warp], outside=(-9, -8, -7), **options)
        numbers = Numbers(WARPS[warp], None, (0, 0, 0), (1, 1, 1), (-9, -8, -7))
        out = torch.full((1, 3, 31, 37), np.nan)
        ongpu.warp_batch([ongpu._to_device(planes, CPU)], [numbers], out, **options)
        assert_within_one(out[0].numpy(), expected)


def assert_within_one(found: Any, expected: Any) -> None:
    """Compare pixels; those exactly at an edge may be inside or outside."""
    assert not np.isnan(found).any()
    wrong = np.abs(found - expected).max(0) > 1.001
    assert wrong.mean() < 0.002, f"{wrong.sum()} of {wrong.size} pixels differ"


def test_a_batch_of_many_sizes_colours_and_norms() -> None:
    rng = np.random.default_rng(5)
    sizes = [(39, 53), (24, 24), (39, 53), (64, 18), (24, 24)]
    planes = [random_planes(rng, index % 4, size) for index, size in enumerate(sizes)]
    planes[2] = planes[2]._replace(matrix=1, full_range=False)
    planes[3] = planes[3]._replace(matrix=0)
    crop = SimilarityTransform((0.3, 1), degrees=20, flip_h=0.5, random_crop=True, resize=True)
    numbers = [
        Numbers(
            crop(0, each.shape, (20, 24), rng),
            [None, 0, None, 2, 9][index],
            rng.uniform(0, 100, 3).tolist(),
            rng.uniform(0.5, 1, 3).tolist(),
            (7.0, 8.0, 9.0),
        )
        for index, each in enumerate(planes)
    ]
    out = torch.full((5, 3, 20, 24), np.nan)
    ongpu.warp_batch([ongpu._to_device(each, CPU) for each in planes], numbers, out)
    for index, (each, own) in enumerate(zip(planes, numbers, strict=True)):
        expected = np.empty((3, 20, 24), np.float32)
        conversion = own.conversion(each.matrix, each.full_range)
        assert (conversion is PLANES) == (index == 4)
        warp_planes(
            each,
            expected,
            own.warp,
            bias=own.bias,
            scale=own.norm,
            outside=own.oob,
            matrix=conversion,
        )
        assert_within_one(out[index].numpy(), expected)
    # Planes that are not converted are not rounded either.
    assert (np.abs(out[4].numpy() - expected) > 0.05).mean() < 0.01


def test_a_conversion_is_the_pictures_unless_another_is_wanted() -> None:
    numbers = Numbers((), None, (), (), ())
    assert numbers.conversion(1, False) == coefficients(1, False)
    assert numbers._replace(color=0).conversion(1, False) == benzina_coefficients(0)
    assert numbers._replace(color=0).conversion(0, True) == coefficients(0, True)


def test_an_unknown_padding_is_refused() -> None:
    with pytest.raises(ValueError, match="padding must be one of"):
        ongpu.warp_batch([], [], torch.empty((0, 3, 4, 4)), padding="none")


def test_pictures_are_decoded_to_tensors(mini: benzina.Dataset) -> None:
    decoder = ongpu.DeviceDecoder(CPU)
    pictures = [
        (sample.layout.tracks["bzna_thumb"], sample.read_track("bzna_thumb"))
        for sample in mini.samples()
    ]
    for sample, picture in zip(mini.samples(), pictures, strict=True):
        found = decoder.decode(*picture)
        planes = sample.frame("bzna_thumb")
        np.testing.assert_array_equal(found.y.numpy(), planes.y)
        np.testing.assert_array_equal(found.u.numpy(), planes.u)
        np.testing.assert_array_equal(found.v.numpy(), planes.v)
        assert found[3:] == planes[3:]
        assert found.shape == planes.shape
    assert (decoder.ndecoded, decoder.nfallback) == (12, 0)


class Refusing:
    """A stand-in for hardware that decodes only some inputs."""

    def __init__(self, refused: Any) -> None:
        self._refused = refused
        self._decoder = ongpu.Decoder()
        self.count = 0

    def decode(self, *picture: Any) -> Any:
        self.count += 1
        if self._refused(self.count):
            raise [CodecError("no surface"), UnsupportedError("4:4:4")][self.count % 2]
        return ongpu._to_device(self._decoder.decode(*picture), CPU)


def test_what_the_hardware_refuses_is_decoded_and_counted(mini: benzina.Dataset) -> None:
    decoder = ongpu.DeviceDecoder(CPU)
    decoder._hardware = Refusing(lambda count: count > 2)  # type: ignore[assignment]
    pictures = [
        (sample.layout.tracks["bzna_thumb"], sample.read_track("bzna_thumb"))
        for sample in mini.samples()
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [decoder.decode(*picture) for picture in pictures]
    assert (decoder.ndecoded, decoder.nfallback) == (12, 10)
    assert [str(each.message) for each in caught] == [
        "1 of 3 pictures so far were decoded on the CPU, not on cpu; last reason: 4:4:4",
        "10 of 12 pictures so far were decoded on the CPU, not on cpu; last reason: no surface",
    ]
    np.testing.assert_array_equal(found[5].y.numpy(), mini[5].frame("bzna_thumb").y)


def test_a_damaged_picture_is_an_error_of_the_cpu_too(mini: benzina.Dataset) -> None:
    decoder = ongpu.DeviceDecoder(CPU)
    decoder._hardware = Refusing(lambda count: True)  # type: ignore[assignment]
    track, payload = mini[0].layout.tracks["bzna_thumb"], mini[0].read_track("bzna_thumb")
    with pytest.raises(CodecError):
        decoder.decode(track, payload[:5] + bytes(len(payload) - 5))
    assert decoder.ndecoded == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_on_a_device_are_those_of_the_kernel(mini: benzina.Dataset, threads: int) -> None:
    options: dict[str, Any] = {
        "seed": 3,
        "shuffle": True,
        "warp": RandomResizedCrop(flip_h=0.5),
        "norm": 0.5,
        "bias": 100,
        "threads": threads,
    }
    loader = benzina.Loader(mini, (24, 32), 5, **options)
    expected = list(loader)
    loader.set_epoch(0)
    loader._filler = lambda epoch: ongpu.DeviceFiller(  # type: ignore[method-assign]
        loader._recipe, loader.seed, epoch, CPU
    )
    for (found, targets), (images, same) in zip(loader, expected, strict=True):
        assert isinstance(found, torch.Tensor)
        np.testing.assert_array_equal(targets, same)
        difference = np.abs(found.numpy() - images).max(1)
        assert (difference > 0.501).mean() < 0.002


def test_an_error_on_a_device_names_its_sample(mini: benzina.Dataset) -> None:
    loader = benzina.Loader(mini, 8, 12, track="bzna_depth", threads=1)
    loader._filler = lambda epoch: ongpu.DeviceFiller(  # type: ignore[method-assign]
        loader._recipe, loader.seed, epoch, CPU
    )
    with pytest.raises(benzina_error(), match=r"sample 0 \(.*no track 'bzna_depth'"):
        list(loader)


def test_the_limit_of_pixels_is_that_of_the_dataset() -> None:
    with benzina.open(vectors.FOLDER / MINI, max_pixels=1000) as dataset:
        loader = benzina.Loader(dataset, 8, threads=1)
        loader._device = torch.device("meta")  # any device but the CPU
        with pytest.raises(UnsupportedError, match="limit of 1000 pixels"):
            next(iter(loader))


def benzina_error() -> type[Exception]:
    from bloscpack.exceptions import NotFoundError

    return NotFoundError


def test_tensors_of_the_cpu(mini: benzina.Dataset) -> None:
    arrays = list(benzina.Loader(mini, 8, 5))
    for options in ({"as_tensors": True}, {"device": torch.device("cpu")}):
        tensors = list(benzina.Loader(mini, 8, 5, **options))
        for (found, targets), (images, same) in zip(tensors, arrays, strict=True):
            assert (found.dtype, targets.dtype) == (torch.float32, torch.int64)
            np.testing.assert_array_equal(found.numpy(), images)
            np.testing.assert_array_equal(targets.numpy(), same)


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch finds a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", 0, "cuda:0"])
def test_a_device_that_is_not_there(mini: benzina.Dataset, device: Any) -> None:
    with pytest.raises(RuntimeError, match="torch finds no GPU; use device='cpu'"):
        benzina.Loader(mini, 8, device=device)
    with pytest.raises(RuntimeError, match="torch finds no GPU; use device='cpu'"):
        benzina.DataLoader(mini, 8, device=device)


def test_devices_of_other_kinds_are_refused(mini: benzina.Dataset) -> None:
    with pytest.raises(RuntimeError, match="batches are made on 'cpu' or 'cuda'"):
        benzina.Loader(mini, 8, device="meta")
    with pytest.raises(ValueError, match="as_tensors is False"):
        benzina.Loader(mini, 8, device=torch.device("cpu"), as_tensors=False)


@needs_cuda
def test_batches_of_a_gpu_are_those_of_the_cpu(mini: benzina.Dataset) -> None:
    expected = list(benzina.Loader(mini, 64, 5))
    found = list(benzina.Loader(mini, 64, 5, device="cuda"))
    for (images, targets), (arrays, same) in zip(found, expected, strict=True):
        assert images.device.type == "cuda"
        assert_within_one(images.cpu().numpy()[0], arrays[0])
        np.testing.assert_array_equal(targets.numpy(), same)
