"""Frames decoded on a device: video by torchcodec (NVDEC), JPEG by torchvision (nvJPEG).

A batch is coded first: its stored bytes are read and compared with their digests, in any process. A
`CodedBatch` can be pickled, so that workers hand it to the process that owns the device. That
process decodes each group of video and each JPEG once, straight from memory, into one tensor. All
other frames are decoded by the processor, and moved. With ``device="cpu"`` the same libraries
decode on the processor, by the same code.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from io import BytesIO
from typing import Any, Protocol

import numpy as np
import torch

from ...exceptions import BloscpackError, CodecError
from ...frames.protocol import frame_indices
from ...frames.video.format import Packet
from ...frames.video.mp4file import write_file
from ...media import image
from ...media.video import turn_of
from ...parallel.imports import importing
from ...types import AnyArray
from .torchbatch import tensor_of

_FALLBACK = "without device, frames are decoded on the processor"


class Coded(Protocol):
    """Verified stored bytes of some frames."""

    @property
    def label(self) -> str:
        """Clip and codec, for messages."""

    def decode(self, device: torch.device) -> Iterable[torch.Tensor]:
        """Return the frames in order, uint8 on the device."""


@dataclass(slots=True)
class VideoGroup:
    """A closed group of pictures, as an mp4 file in memory."""

    label: str
    file: bytes
    size: tuple[int, int]  # width and height before the frames are turned
    rotation: int
    flipped: bool
    ranks: list[int] = field(default_factory=list)  # places of the wanted frames in the group

    def decode(self, device: torch.device) -> torch.Tensor:
        """Return the frames in order, uint8 on the device."""
        decoder = _video_decoder()(self.file, dimension_order="NHWC", device=device)
        found = decoder.metadata.width, decoder.metadata.height
        if found != self.size:
            raise ValueError(f"its frames have {found} pixels, not {self.size}")
        frames: torch.Tensor = decoder.get_frames_at(self.ranks).data
        return torch.rot90(frames.flip(1) if self.flipped else frames, -self.rotation // 90, (1, 2))


@dataclass(slots=True)
class JpegImages:
    """JPEG files, which are decoded in one call."""

    files: list[bytes] = field(default_factory=list)
    clips: list[str] = field(default_factory=list)  # the clip of each file

    @property
    def label(self) -> str:
        """Clip and codec, for messages."""
        names = list(dict.fromkeys(self.clips))
        return f"JPEG of {len(names)} clips from {names[0]!r:.80} to {names[-1]!r:.80}"

    def decode(self, device: torch.device) -> list[torch.Tensor]:
        """Return the frames in order, uint8 on the device."""
        library = _image_library()
        # Copied: torch warns of bytes that must not be changed.
        files = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in self.files]
        mode = library.ImageReadMode.UNCHANGED
        images = library.decode_jpeg(files, mode=mode, device=device)
        return [each[0] if len(each) == 1 else each.permute(1, 2, 0) for each in images]


_Place = tuple[int, int]
"""Number of a request, and place of a frame in its result."""


@dataclass(slots=True)
class CodedBatch:
    """Frames of several requests, before they are decoded.

    Attributes
    ----------
    shapes : dict
        By number of the request, the shape of the result of each that the device decodes.
    coded : list of (Coded, list of list of place)
        Stored bytes, and the places of each of their frames.
    """

    shapes: dict[int, tuple[int, ...]]
    coded: list[tuple[Coded, list[list[_Place]]]]

    def decode(
        self, device: torch.device, hosted: torch.Tensor | list[torch.Tensor]
    ) -> torch.Tensor | list[torch.Tensor]:
        """Decode on the device, and move the results of the other requests, `hosted`, there.

        Return one tensor if no request, or every one, was decoded by the processor and all agree in
        shape and dtype; else one each.

        Raises
        ------
        CodecError
            The device cannot decode a frame; the message names the clip and the codec.
        ImportError, RuntimeError
            A package, or the device, is missing.
        """
        _check_available(device)
        if isinstance(hosted, torch.Tensor) and not self.shapes:
            return _moved(hosted, device)
        moved = [_moved(each, device) for each in hosted]
        shapes = list(self.shapes.values())
        whole: torch.Tensor | None = None
        if not moved and len(set(shapes)) == 1:
            whole = torch.empty((len(shapes), *shapes[0]), dtype=torch.uint8, device=device)
            parts = dict(zip(self.shapes, whole, strict=True))
        else:
            parts = {
                number: torch.empty(shape, dtype=torch.uint8, device=device)
                for number, shape in self.shapes.items()
            }
        for coded, places in self.coded:
            self._decode(coded, places, parts, device)
        if whole is not None:
            return whole
        others = iter(moved)
        count = len(moved) + len(parts)
        return [parts[k] if k in parts else next(others) for k in range(count)]

    def _decode(
        self,
        coded: Coded,
        places: list[list[_Place]],
        parts: dict[int, torch.Tensor],
        device: torch.device,
    ) -> None:
        try:
            for frame, targets in zip(coded.decode(device), places, strict=True):
                for number, place in targets:
                    _put(frame, parts[number][place])
        except ImportError:
            raise
        except (RuntimeError, ValueError, IndexError) as err:
            raise CodecError(
                f"{coded.label}: {device} cannot decode it: {err!s:.300}; {_FALLBACK}"
            ) from err


def _put(frame: torch.Tensor, target: torch.Tensor) -> None:
    if frame.shape != target.shape:  # `copy_` would broadcast
        raise ValueError(f"a frame of {tuple(frame.shape)}, not {tuple(target.shape)}")
    target.copy_(frame)


def checked_device(device: Any) -> torch.device:
    """Return a device for frames, or raise ValueError."""
    found = None
    with suppress(RuntimeError):  # a name or a number that torch does not know
        found = torch.device(device)
    if found is None or found.type not in ("cuda", "cpu"):
        raise ValueError(
            f"device must be 'cuda', 'cuda:N' or 'cpu', not {device!r:.80}; {_FALLBACK}"
        )
    return found


def code_batch(
    requests: Sequence[tuple[Any, Any]], read: Callable[[list[int]], AnyArray | list[AnyArray]]
) -> tuple[CodedBatch, torch.Tensor | list[torch.Tensor]]:
    """Read a batch for `CodedBatch.decode`, and return it with its second argument.

    Parameters
    ----------
    requests : sequence of (Clip, selection)
        Frames of each clip; a selection is not a single number.
    read : callable
        Function that reads the requests with these numbers by the processor.
    """
    groups: dict[tuple[str, int], tuple[VideoGroup, dict[int, list[_Place]]]] = {}
    images, image_places = JpegImages(), list[list[_Place]]()
    shapes: dict[int, tuple[int, ...]] = {}
    others = []
    for number, (clip, selection) in enumerate(requests):
        indices = frame_indices(selection, len(clip)).indices
        places: dict[int, list[_Place]] = {}
        for place, index in enumerate(indices.tolist()):
            places.setdefault(index, []).append((number, place))
        if len(indices) and hasattr(clip, "read_groups"):
            _add_groups(clip, places, groups)
        elif len(indices) and (files := _jpegs(clip, list(places))):
            images.files += files
            images.clips += [clip.id] * len(files)
            image_places += places.values()
        else:
            others.append(number)
            continue
        shapes[number] = (len(indices), *clip.frame_shape(indices))
    coded: list[tuple[Coded, list[list[_Place]]]] = []
    for group, ranks in groups.values():
        group.ranks = sorted(ranks)
        coded.append((group, [ranks[rank] for rank in group.ranks]))
    if images.files:
        coded.append((images, image_places))
    frames = read(others) if others else []
    hosted = tensor_of(frames) if isinstance(frames, np.ndarray) else list(map(tensor_of, frames))
    return CodedBatch(shapes, coded), hosted


def _add_groups(
    clip: Any,
    places: dict[int, list[_Place]],
    groups: dict[tuple[str, int], tuple[VideoGroup, dict[int, list[_Place]]]],
) -> None:
    """Add the groups of a clip that have some frames; each is read once for all requests."""
    clip.frame_shape(np.array(list(places)))  # refuses sizes that the stored bytes cannot have
    starts = {index: clip.chunk_frames(clip.group_of(index))[0] for index in places}
    missing = [index for index, start in starts.items() if (clip.id, start) not in groups]
    for start, packets in clip.read_groups(missing) if missing else ():
        groups[clip.id, start] = _group_of(clip, packets), {}
    for index, start in starts.items():
        groups[clip.id, start][1].setdefault(index - start, []).extend(places[index])


def _group_of(clip: Any, packets: list[Packet]) -> VideoGroup:
    header = clip.header
    label = f"clip {clip.id!r:.80}: {header.codec.label} of {header.pixel_format}"
    # A file cannot show a frame before time 0: the first one of the group comes then.
    first = min(packet.pts for packet in packets)
    moved = [each._replace(pts=each.pts - first, dts=each.dts - first) for each in packets]
    file = BytesIO()
    try:
        # Frames are turned here, as versions of decoders differ in whether they do it.
        write_file(file, replace(header, matrix=(), pixel_aspect=Fraction(0)), moved)
    except BloscpackError as err:
        err.at(label)
        raise
    size = header.width, header.height
    return VideoGroup(label, file.getvalue(), size, *turn_of(header.matrix, label))


def _jpegs(clip: Any, indices: list[int]) -> list[bytes]:
    """Return frames as JPEG files of a kind that devices decode, or [] if they are not all so."""
    # Sources that are not ours may lack these.
    if not hasattr(clip, "read_images") or not hasattr(clip, "frame_shape"):
        return []
    files: list[bytes] = clip.read_images(indices) or []
    for file in files:
        # Decoders of devices have no CMYK, and those of torchvision turn nothing.
        info = image.probe(file, upright=True)
        if info.kind != "jpeg" or info.turn != image.UPRIGHT or info.shape[2:] not in ((), (3,)):
            return []
        image.check_scans(file)
    return files


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on the device; a copy from pinned memory need not be waited for."""
    if device.type == "cuda" and tensor.numel() and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _check_available(device: torch.device) -> None:
    # Not earlier: asking for CUDA before a fork may make it unusable in the children.
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(
            f"device {str(device)!r}: torch {torch.__version__} finds no CUDA device; {_FALLBACK}"
        )


def _video_decoder() -> Any:
    try:
        with importing:
            from torchcodec.decoders import VideoDecoder
    except (ImportError, OSError, RuntimeError) as err:
        raise _missing("torchcodec", "video", err) from err
    return VideoDecoder


def _image_library() -> Any:
    try:
        with importing:
            from torchvision import io
    except (ImportError, OSError, RuntimeError) as err:
        raise _missing("torchvision", "JPEG", err) from err
    return io


def _missing(package: str, what: str, err: Exception) -> ImportError:
    return ImportError(
        f"{what} on a device needs {package}, of a version for torch {torch.__version__} "
        f"({err!s:.200}): pip install {package}; {_FALLBACK}",
        name=package,
    )
