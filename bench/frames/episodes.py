"""Episodes: windows of images and numbers by one index, through torch's DataLoader.

The access pattern of stable-worldmodel and its Lance, HDF5 and video formats: a step of an episode
has an image of each camera and a few numbers; an item is a window of steps. All formats read a
batch in one call of a worker, into one array for the images and one for the numbers.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from race.races import Case, Task, require, require_equal, size_of
from race.timing import Loop, loop_of

import bloscpack as bp
from bloscpack.media import image
from frames.contenders import (
    EPISODES,
    HDF5_RAW,
    LANCE_JPEG,
    STORE_FAST,
    STORE_JPEG,
    STORE_VIDEO,
    TORCHCODEC,
    Contender,
    is_near,
)
from frames.data import decode_frames
from frames.formats import distinct
from frames.video import decode_mp4, encode_mp4

if TYPE_CHECKING:
    from frames.cases import Clips

WORKERS = 2
ONE, SEVEN = 1, 7
_HOPS = {ONE: 2, SEVEN: 16}  # steps from one window to the next
_BATCH = {ONE: 8, SEVEN: 2}  # windows
_NNUMBERS = 10  # an action and a state, float32
_EDGE = 224
_SEED = 5
_TIMEOUT = 240  # seconds

Frames = dict[str, np.ndarray]
Batch = tuple[np.ndarray, np.ndarray]
Read = Callable[[Sequence[tuple[int, int]]], Batch]
"""Takes episodes and first steps; returns images, (B, cameras, T, H, W, 3), and numbers."""


def episode_ids(count: int) -> list[str]:
    return [f"episode {number:03d}" for number in range(count)]


def views(frames: np.ndarray, ncameras: int) -> Frames:
    """Return the frames of cameras that look 16 pixels further to the right each."""
    return {
        f"camera {k}": np.ascontiguousarray(np.roll(frames, -16 * k, 2)[:, :_EDGE, :_EDGE])
        for k in range(ncameras)
    }


def numbers_of(nepisodes: int, nframes: int) -> np.ndarray:
    """Return the numbers of all steps, float32 (episodes, steps, numbers)."""
    steps = np.random.default_rng(_SEED).normal(size=(nepisodes, nframes, _NNUMBERS))
    return np.cumsum(steps, 1).astype(np.float32)


def encode_images(frames: np.ndarray) -> list[bytes]:
    """Return JPEG images of the quality of stable-worldmodel."""
    return [image.encode_jpeg(frame, quality=95, subsampling="420") for frame in frames]


class Format:
    """A way to keep episodes. The frames of a camera are the same in all, their numbers differ."""

    pixels = "frames"

    def __init__(self, length: int) -> None:
        self.length = length

    def write(self, path: Path, cameras: Frames, numbers: np.ndarray) -> None:
        raise NotImplementedError

    def open(self, path: Path) -> Read:
        raise NotImplementedError


class Hdf5(Format):
    def write(self, path: Path, cameras: Frames, numbers: np.ndarray) -> None:
        """Write all steps one after the other; a chunk is a step, as it is not compressed."""
        with import_module("h5py").File(path, "w", libver="latest") as file:
            for name, frames in cameras.items():
                shape = (len(numbers) * len(frames), *frames.shape[1:])
                data = file.create_dataset(name, shape, frames.dtype, chunks=(1, *shape[1:]))
                for start in range(0, len(data), len(frames)):
                    data[start : start + len(frames)] = frames
            rows = numbers.reshape(-1, _NNUMBERS)
            file.create_dataset("numbers", data=rows, chunks=(1, _NNUMBERS))
            file.attrs["nframes"] = numbers.shape[1]

    def open(self, path: Path) -> Read:
        file = import_module("h5py").File(path, "r", rdcc_nbytes=1 << 28)
        *cameras, rows = (file[name] for name in file)
        nframes, length = int(file.attrs["nframes"]), self.length

        def read(windows: Sequence[tuple[int, int]]) -> Batch:
            shape = (len(windows), len(cameras), length, *cameras[0].shape[1:])
            images = np.empty(shape, np.uint8)
            numbers = np.empty((len(windows), length, _NNUMBERS), np.float32)
            for k, (episode, start) in enumerate(windows):
                first = episode * nframes + start
                for data, place in zip(cameras, images[k], strict=True):
                    data.read_direct(place, np.s_[first : first + length])
                rows.read_direct(numbers[k], np.s_[first : first + length])
            return images, numbers

        return read


class Lance(Format):
    """A row for each step, with a column of JPEG images for each camera."""

    pixels = "jpeg"

    def write(self, path: Path, cameras: Frames, numbers: np.ndarray) -> None:
        pyarrow = import_module("pyarrow")
        images = {name: encode_images(frames) for name, frames in cameras.items()}
        binary, floats = pyarrow.binary(), pyarrow.list_(pyarrow.float32(), _NNUMBERS)
        fields = [("episode", pyarrow.int32()), *((name, binary) for name in images)]
        schema = pyarrow.schema([*fields, ("numbers", floats)])

        def batches() -> Any:
            for episode, rows in enumerate(numbers):
                values = pyarrow.FixedSizeListArray.from_arrays(rows.ravel(), _NNUMBERS)
                coded = [distinct(each, f"{episode:03d}") for each in images.values()]
                columns = [[episode] * len(rows), *coded, values]
                yield pyarrow.record_batch(columns, schema=schema)

        lance = import_module("lance")
        lance.write_dataset(batches(), str(path), schema=schema, data_storage_version="2.2")

    def open(self, path: Path) -> Read:
        table = import_module("lance").dataset(str(path))
        episodes = table.to_table(columns=["episode"])["episode"].to_numpy()
        starts = np.searchsorted(episodes, np.arange(int(episodes[-1]) + 1))
        cameras = [name for name in table.schema.names if name.startswith("camera")]
        length = self.length

        def read(windows: Sequence[tuple[int, int]]) -> Batch:
            rows = np.concatenate([starts[e] + np.arange(k, k + length) for e, k in windows])
            taken, places = np.unique(rows, return_inverse=True)
            found = table.take(taken.tolist(), columns=[*cameras, "numbers"])
            columns = [found[name].to_pylist() for name in cameras]
            # An image that is in several windows is decoded for each, in place.
            coded = [
                columns[camera][place]
                for window in places.reshape(len(windows), length)
                for camera in range(len(cameras))
                for place in window
            ]
            images = _decoded(coded, (len(windows), len(cameras), length))
            values = found["numbers"].combine_chunks().flatten().to_numpy()
            return images, values.reshape(-1, _NNUMBERS)[places].reshape(-1, length, _NNUMBERS)

        return read


def _decoded(coded: Sequence[bytes], shape: tuple[int, ...]) -> np.ndarray:
    decode = import_module("simplejpeg").decode_jpeg
    first = decode(coded[0], fastdct=True, fastupsample=True)
    frames = np.empty((len(coded), *first.shape), np.uint8)
    for data, frame in zip(coded, frames, strict=True):
        decode(data, fastdct=True, fastupsample=True, buffer=frame)
    return frames.reshape(*shape, *first.shape)


class Videos(Format):
    """An mp4 file for each episode and camera, a decoder kept for each; numbers in memory."""

    pixels = "video"

    def write(self, path: Path, cameras: Frames, numbers: np.ndarray) -> None:
        path.mkdir()
        for name, frames in cameras.items():
            coded = encode_mp4(frames)
            for episode in range(len(numbers)):
                (path / f"{episode:03d} {name}.mp4").write_bytes(coded)
        np.savez(path / "numbers.npz", numbers=numbers)

    def open(self, path: Path) -> Read:
        import torch
        from torchcodec.decoders import VideoDecoder

        torch.set_num_threads(1)
        with np.load(path / "numbers.npz") as file:
            rows = file["numbers"]
        files = sorted(path.glob("*.mp4"))
        options = {"dimension_order": "NHWC", "num_ffmpeg_threads": 1, "seek_mode": "exact"}
        decoders = [VideoDecoder(str(file), **options) for file in files]
        ncameras, length = len(files) // len(rows), self.length

        def read(windows: Sequence[tuple[int, int]]) -> Batch:
            images = [
                decoders[episode * ncameras + camera].get_frames_in_range(start, start + length)
                for episode, start in windows
                for camera in range(ncameras)
            ]
            frames = torch.stack([each.data for each in images]).numpy()
            numbers = np.stack([rows[e, start : start + length] for e, start in windows])
            return frames.reshape(len(windows), ncameras, *frames.shape[1:]), numbers

        return read


class Store(Format):
    """A frame store: a clip for each episode and camera, and one of the numbers of an episode."""

    def __init__(self, length: int, kind: str) -> None:
        super().__init__(length)
        self.pixels = kind if kind in ("jpeg", "video") else "frames"

    def write(self, path: Path, cameras: Frames, numbers: np.ndarray) -> None:
        coded: dict[str, Any] = cameras
        if self.pixels == "jpeg":
            coded = {name: encode_images(frames) for name, frames in cameras.items()}
        elif self.pixels == "video":
            coded = {name: encode_mp4(frames) for name, frames in cameras.items()}
        with bp.frames.create(path, preset="fast") as store:
            for id_, rows in zip(episode_ids(len(numbers)), numbers, strict=True):
                for name, frames in coded.items():
                    append = store.append_video if self.pixels == "video" else store.append
                    append(f"{id_}/{name}", frames)
                store.append(f"{id_}/numbers", rows)


class StoreWindows:
    """Windows of a store by one index, as `docs/howto/train-from-frames.md` has them."""

    def __init__(self, path: Path, nepisodes: int, ncameras: int, length: int, hop: int) -> None:
        from bloscpack.integrations.torch import FrameDataset

        ids = episode_ids(nepisodes)
        cameras = [f"{id_}/camera {k}" for k in range(ncameras) for id_ in ids]
        window = {"length": length, "start": "every", "hop": hop}
        self._ncameras = ncameras
        self._images = FrameDataset(path, clips=cameras, **window)
        self._numbers = FrameDataset(path, clips=[f"{id_}/numbers" for id_ in ids], **window)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitems__(self, indices: Sequence[int]) -> Any:
        places = [i + len(self) * k for i in indices for k in range(self._ncameras)]
        return self._images.__getitems__(places), self._numbers.__getitems__(indices)

    def collate(self, items: Any) -> dict[str, Any]:
        from bloscpack.integrations.torch import collate_clips

        images, numbers = map(collate_clips, items)
        images["frames"] = images["frames"].unflatten(0, (-1, self._ncameras))
        images["numbers"] = numbers["frames"]
        images["item"] = numbers["index"]
        return images


class FormatWindows:
    """Windows of another format by one index; each worker opens the files for itself."""

    def __init__(self, kind: Format, path: Path, places: list[tuple[int, int]]) -> None:
        self._kind, self._path, self._places = kind, path, places
        self._read: Read | None = None

    def __len__(self) -> int:
        return len(self._places)

    def __getitems__(self, indices: Sequence[int]) -> Any:
        if self._read is None:
            self._read = self._kind.open(self._path)
        return *self._read([self._places[index] for index in indices]), indices

    def collate(self, items: Any) -> dict[str, Any]:
        import torch

        images, numbers, indices = items
        parts = {"frames": images, "numbers": numbers, "item": np.asarray(indices)}
        return {name: torch.from_numpy(part) for name, part in parts.items()}


def format_of(name: str, length: int) -> Format:
    """Return the format of a contender."""
    kinds = {STORE_JPEG: "jpeg", STORE_FAST: "fast", STORE_VIDEO: "video"}
    if name in kinds:
        return Store(length, kinds[name])
    return {LANCE_JPEG: Lance, HDF5_RAW: Hdf5, TORCHCODEC: Videos}[name](length)


def measure_episodes(races: "Clips") -> None:
    """Race the loaders of windows of one camera and of seven, and find the sizes of the files."""
    try:
        import torch  # noqa: F401
    except ImportError as err:
        races.absent["torch"] = f"not installed ({err})"
        return
    setting, frames = races.setting, races.clips[0].frames
    chosen = [one for one in races.contenders if EPISODES in one.works]
    sizes = races.found.setdefault("episodes", {})
    for ncameras in (ONE, SEVEN):
        label = f"{ncameras} camera{'s' if ncameras > 1 else ''}"
        cameras = views(frames, ncameras)
        numbers = numbers_of(setting.nepisodes, len(frames))
        wanted = _save_wanted(races.folder, cameras)
        case = Case(f"episodes/{label}", label, 0)
        loops: dict[str, Loop] = {}
        for one in chosen:
            path = races.folder / f"{one.name}, {label}"
            kind = format_of(one.name, setting.batch_window)
            kind.write(path, cameras, numbers)
            nsteps = setting.nepisodes * len(frames) * ncameras
            sizes.setdefault(label, {})[one.name] = size_of(path) / nsteps
            worker = races.worker(one.name, ("episodes", label), _TIMEOUT)
            races.closing.callback(worker.close)
            loops[one.name] = worker.prepare(
                path=path,
                wanted=wanted[kind.pixels],
                nepisodes=setting.nepisodes,
                nframes=len(frames),
                ncameras=ncameras,
                length=setting.batch_window,
            )
        hop = min(_HOPS[ncameras], setting.batch_window)
        per_call = len(window_places(setting.nepisodes, len(frames), setting.batch_window, hop))
        races.hold(case, loops, per_call, setting.nepochs)


def _save_wanted(folder: Path, cameras: Frames) -> dict[str, Path]:
    """Return files with the frames of all cameras as formats return them, by `pixels`."""
    found = {
        "frames": cameras.values(),
        "jpeg": (decode_frames(encode_images(frames)) for frames in cameras.values()),
        "video": (decode_mp4(encode_mp4(frames)) for frames in cameras.values()),
    }
    wanted = {pixels: folder / f"episodes {pixels}.npy" for pixels in found}
    for pixels, path in wanted.items():
        np.save(path, np.stack([*found[pixels]]))
    return wanted


def window_places(nepisodes: int, nframes: int, length: int, hop: int) -> list[tuple[int, int]]:
    """Return the episode and the first step of each window."""
    starts = range(0, nframes - length + 1, hop)
    return [(episode, start) for episode in range(nepisodes) for start in starts]


def prepare_episodes(contender: Contender, task: Task) -> Loop:
    """Return the loop of passes over all windows, after checking each of the first pass."""
    from torch.utils.data import DataLoader

    nepisodes, ncameras, length = task["nepisodes"], task["ncameras"], task["length"]
    hop = min(_HOPS[ncameras], length)
    places = window_places(nepisodes, task["nframes"], length, hop)
    path = Path(task["path"])
    dataset: Any
    if contender.name.startswith("bloscpack"):
        dataset = StoreWindows(path, nepisodes, ncameras, length, hop)
    else:
        dataset = FormatWindows(format_of(contender.name, length), path, places)
    loader = DataLoader(
        dataset,
        batch_size=_BATCH[ncameras],
        shuffle=True,
        num_workers=WORKERS,
        collate_fn=dataset.collate,
        multiprocessing_context="fork",
        persistent_workers=True,
    )
    wanted = np.load(task["wanted"], mmap_mode="r")
    numbers = numbers_of(nepisodes, task["nframes"])
    is_right = is_near if contender.pixels == "video" else np.array_equal
    seen = []
    for batch in loader:
        for frames, rows, item in zip(
            batch["frames"], batch["numbers"], batch["item"], strict=True
        ):
            episode, start = places[int(item)]
            window = slice(start, start + length)
            require_equal(rows.numpy(), numbers[episode, window], contender.name, "numbers")
            for camera, found in enumerate(frames.numpy()):
                what = f"window {int(item)} of camera {camera}"
                require(is_right(found, wanted[camera, window]), contender.name, what)
            seen.append(int(item))
    require_equal(sorted(seen), [*range(len(places))], contender.name, "the windows of a pass")

    def load() -> None:
        count = sum(len(batch["frames"]) for batch in loader)
        require(count == len(places), contender.name, f"a pass of {count} windows")

    return loop_of(load)
