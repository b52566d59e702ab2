"""Batches on a torch device: pictures decoded by its hardware and warped by torch.

On ``"cuda"`` PyAV decodes with NVDEC and leaves the frames on the device. Pictures that the
hardware refuses are decoded on the CPU and counted. The warp is written in torch and differs from
the kernel's by at most 1 of 255, so all of this but NVDEC can be tested with tensors on the CPU.

Experimental: NVDEC and batches on ``"cuda"`` have not been tested on a GPU.
"""

import threading
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...plugin import BloscpackError, UnsupportedError, optional_library
from ..codec.codecconfig import DEFAULT_MAX_PIXELS
from ..codec.colour import PLANES
from ..codec.decoder import Decoder, is_full_range
from ..codec.planes import HALVED, Aperture, Planes, check_padding
from ..mp4.samplelayout import InnerTrack
from .batching import Filler, Task, naming_sample
from .recipe import Numbers, Recipe

with optional_library("it", "torch", "tensors need torch"):
    import torch

# Samples per task: enough to keep the device busy, few enough for its memory.
_MAX_TASK = 32
# Planes of an NV12 frame, as NVDEC leaves it on the device: luma, and interleaved chroma.
_NV12_PLANES = 2
# Counts of pictures decoded on the CPU at which a warning is issued.
_WARNING_COUNTS = frozenset(10**power for power in range(12))


class DevicePlanes(NamedTuple):
    """Counterpart of `Planes` on a device."""

    # Two-dimensional uint8; `u` and `v` are None for grey.
    y: torch.Tensor
    u: torch.Tensor | None
    v: torch.Tensor | None
    clean: Aperture
    chroma: int
    matrix: int
    full_range: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the clean aperture."""
        return self.clean[3], self.clean[2]


def resolve_device(device: Any) -> torch.device:
    """Return a torch device; a number selects a GPU."""
    if isinstance(device, int):
        device = f"cuda:{device}"
    found = torch.device(device)
    if found.type == "cpu":
        return found
    if found.type != "cuda":
        raise RuntimeError(f"device {str(found)!r}: batches are made on 'cpu' or 'cuda'")
    if not torch.cuda.is_available():
        raise RuntimeError(f"device {str(found)!r}: torch finds no GPU; use device='cpu'")
    if (found.index or 0) >= torch.cuda.device_count():
        raise RuntimeError(f"device {str(found)!r}: torch finds {torch.cuda.device_count()}")
    index = torch.cuda.current_device() if found.index is None else found.index
    return torch.device("cuda", index)


class DeviceDecoder:
    """Decodes pictures to a device.

    `ndecoded` and `nfallback` are the numbers of pictures so far, and of those that the hardware
    refused. Safe in threads; each thread has decoders of its own.
    """

    def __init__(self, device: torch.device, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> None:
        self._device = device
        self._software = Decoder(max_pixels=max_pixels)
        is_cuda = device.type == "cuda"
        self._hardware = _HardwareDecoder(device, max_pixels=max_pixels) if is_cuda else None
        self._lock = threading.Lock()
        self.ndecoded = self.nfallback = 0

    def decode(self, track: InnerTrack, payload: bytes) -> DevicePlanes:
        """Decode a picture of a track; errors as of `Decoder.decode`.

        Warns when the hardware has refused the first picture, the tenth, the hundredth and so on.
        """
        picture = track.config_kind, track.config, payload, track.frame, track.clean
        refusal: Exception | None = None
        if self._hardware is not None:
            try:
                found: Any = self._hardware.decode(*picture)
            except (BloscpackError, NotImplementedError) as err:
                refusal = err
            else:
                self._count(None)
                return found  # type: ignore[no-any-return]
        planes = self._software.decode(*picture)
        self._count(refusal)
        return _to_device(planes, self._device)

    def _count(self, refusal: Exception | None) -> None:
        with self._lock:
            self.ndecoded += 1
            self.nfallback += refusal is not None
            counts = f"{self.nfallback} of {self.ndecoded} pictures so far were"
            is_due = refusal is not None and self.nfallback in _WARNING_COUNTS
        if is_due:
            message = f"{counts} decoded on the CPU, not on {self._device}; last reason: {refusal}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def _to_device(planes: Planes, device: torch.device) -> DevicePlanes:
    def tensor(plane: Any) -> torch.Tensor | None:
        # Copy: the planes are views of the decoder's memory, which torch assumes to be writable.
        return None if plane is None else torch.from_numpy(np.array(plane)).to(device)

    return DevicePlanes(tensor(planes.y), tensor(planes.u), tensor(planes.v), *planes[3:])


class _HardwareDecoder(Decoder):
    """A decoder with its frames on a GPU."""

    def __init__(self, device: torch.device, *, max_pixels: int) -> None:
        super().__init__(max_pixels=max_pixels)
        self._device = device

    def _create(self, name: str) -> Any:
        if name not in ("hevc", "h264"):
            raise UnsupportedError(f"hardware decoding of {name} is not supported")
        accelerator = self._av.codec.hwaccel.HWAccel(
            "cuda", self._device.index, allow_software_fallback=False, is_hw_owned=True
        )
        return self._av.CodecContext.create(name, "r", hwaccel=accelerator)

    def _planes(self, frame: Any, codec: str, clean: Aperture) -> Any:
        planes = frame.planes
        if len(planes) != _NV12_PLANES:
            raise UnsupportedError(f"hardware frame has {len(planes)} planes, expected 2 (NV12)")
        with torch.cuda.device(self._device):
            luma, chroma = (torch.from_dlpack(plane) for plane in planes)
            if luma.dtype != torch.uint8:
                raise UnsupportedError("hardware frame has more than 8 bits per sample")
            # The decoder has few surfaces. Copy them and wait, so that they can be released.
            found = DevicePlanes(
                luma.clone(),
                chroma[..., 0].clone(),
                chroma[..., 1].clone(),
                clean,
                1,
                int(frame.colorspace),
                is_full_range(frame),
            )
            torch.cuda.current_stream().synchronize()
        return found


class DeviceFiller(Filler):
    """A `Filler` with its batches on a torch device."""

    max_task = _MAX_TASK

    def __init__(
        self,
        recipe: Recipe,
        seed: int,
        epoch: int,
        device: torch.device,
        *,
        max_pixels: int = DEFAULT_MAX_PIXELS,
    ) -> None:
        super().__init__(recipe, seed, epoch)
        self._device = device
        self._decoder = DeviceDecoder(device, max_pixels=max_pixels)

    def _new_images(self, count: int) -> Any:
        return torch.empty(
            (count, 3, *self._recipe.shape), dtype=torch.float32, device=self._device
        )

    def _fill(self, task: Task) -> Task:
        pictures = list(task.pictures)
        numbers, planes = task.numbers or self._draw(task, pictures), []
        for sample, track in pictures:
            with naming_sample(sample):
                payload = sample.read_track(track)
                planes.append(self._decoder.decode(sample.layout.tracks[track], payload))
        warp_batch(
            planes,
            numbers,
            task.images[task.first : task.last],
            padding=self._recipe.padding,
            nearest=self._recipe.interpolation == "nearest",
        )
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        return task


def warp_batch(
    planes: Sequence[DevicePlanes],
    numbers: Sequence[Numbers],
    out: torch.Tensor,
    *,
    padding: str = "clean",
    nearest: bool = False,
) -> None:
    """Write warped RGB pictures into a batch: float32, (n, 3, height, width), on their device.

    Pictures may have any sizes; those of equal size are processed together. `numbers` are the warp,
    conversion, bias, norm and outside colour of each. `padding` and `nearest` are as for
    `planes.warp_planes`.
    """
    check_padding(padding)
    groups: dict[Any, list[int]] = {}
    for place, each in enumerate(planes):
        groups.setdefault((each.y.shape, each.chroma), []).append(place)
    for places in groups.values():
        group = [planes[place] for place in places]
        out[places] = _warp(
            group, [numbers[place] for place in places], out.shape[2:], padding, nearest
        )


def _warp(
    planes: list[DevicePlanes],
    numbers: list[Numbers],
    shape: Sequence[int],
    padding: str,
    nearest: bool,
) -> torch.Tensor:
    """Return warped pictures, (n, 3, height, width); all planes must have the same size."""
    device = planes[0].y.device

    def column(values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return a tensor with one row of numbers per picture, broadcast over height and width."""
        return torch.tensor(values, dtype=dtype, device=device)[:, :, None, None]

    x, y = _coordinates(column([each.warp for each in numbers], torch.float64), shape)
    clean = column([each.clean for each in planes], torch.float64)
    left, top, width, height = clean.unbind(1)
    margin = 0.5 if padding == "edge" else 0.0
    low_x, low_y, high_x, high_y = 0 * left, 0 * top, width - 1, height - 1
    if padding == "smear":
        rows, columns = planes[0].y.shape
        low_x, low_y, high_x, high_y = -left, -top, columns - 1 - left, rows - 1 - top
    # Comparisons with NaN are false, so NaN is outside.
    inside = (x >= low_x - margin) & (x <= high_x + margin)
    inside &= (y >= low_y - margin) & (y <= high_y + margin)
    x = torch.where(inside, x, low_x).clamp(low_x, high_x) + left
    y = torch.where(inside, y, low_y).clamp(low_y, high_y) + top
    if nearest:
        x, y = (x + 0.5).floor(), (y + 0.5).floor()
    across, down = HALVED[planes[0].chroma]
    channels = [_interpolate([each.y for each in planes], x, y, 0, 0, nearest)]
    if planes[0].u is not None:
        for name in ("u", "v"):
            plane = [getattr(each, name) for each in planes]
            channels.append(_interpolate(plane, x, y, across, down, nearest))
    return _convert_colours(channels, planes, numbers, inside, column)


def _coordinates(h: torch.Tensor, shape: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the place of each output pixel in its picture: x and y, (n, height, width)."""
    rows, columns = shape
    x = torch.arange(columns, device=h.device, dtype=torch.float64)[None, None, :]
    y = torch.arange(rows, device=h.device, dtype=torch.float64)[None, :, None]
    w = h[:, 6] * x + (h[:, 7] * y + h[:, 8])
    return (h[:, 0] * x + (h[:, 1] * y + h[:, 2])) / w, (h[:, 3] * x + (h[:, 4] * y + h[:, 5])) / w


def _interpolate(
    planes: list[torch.Tensor],
    x: torch.Tensor,
    y: torch.Tensor,
    across: int,
    down: int,
    nearest: bool,
) -> torch.Tensor:
    """Return the samples of planes at luma coordinates: float32 (n, height, width)."""
    plane = torch.stack(planes)
    rows, columns = plane.shape[1:]
    flat = plane.reshape(len(planes), -1)
    # Samples of subsampled chroma are centred between those of luma.
    at_x = ((x / 2).floor() if nearest else x / 2 - 0.25) if across else x
    at_y = ((y / 2).floor() if nearest else y / 2 - 0.25) if down else y
    at_x, at_y = at_x.clamp(0, columns - 1), at_y.clamp(0, rows - 1)
    left, top = at_x.long(), at_y.long()
    weight_x, weight_y = (at_x - left).float(), (at_y - top).float()
    right, bottom = (left + 1).clamp(max=columns - 1), (top + 1).clamp(max=rows - 1)

    def take(row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        index = (row * columns + column).reshape(len(planes), -1)
        return flat.gather(1, index).reshape(row.shape).float()

    above = torch.lerp(take(top, left), take(top, right), weight_x)
    below = torch.lerp(take(bottom, left), take(bottom, right), weight_x)
    return torch.lerp(above, below, weight_y)


def _convert_colours(
    channels: list[torch.Tensor],
    planes: list[DevicePlanes],
    numbers: list[Numbers],
    inside: torch.Tensor,
    column: Any,
) -> torch.Tensor:
    """Return red, green and blue, minus the bias, times the norm."""
    matrices = [
        own.conversion(each.matrix, each.full_range)
        for each, own in zip(planes, numbers, strict=True)
    ]
    while len(channels) < 3:
        channels.append(torch.full_like(channels[0], 128.0))
    m = column(matrices)
    rgb = torch.stack(
        [
            m[:, 4 * row] * channels[0]
            + m[:, 4 * row + 1] * channels[1]
            + m[:, 4 * row + 2] * channels[2]
            + m[:, 4 * row + 3]
            for row in range(3)
        ],
        1,
    )
    is_rounded = column([[given is not PLANES] for given in matrices], torch.bool)
    rgb = torch.where(is_rounded, (rgb.clamp(0, 255) + 0.5).floor(), rgb)
    bias, norm = column([own.bias for own in numbers]), column([own.norm for own in numbers])
    outside = column([own.oob for own in numbers])
    return torch.where(inside[:, None], (rgb - bias) * norm, outside)
