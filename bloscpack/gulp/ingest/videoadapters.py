"""Adapters for videos, decoded in memory (`bloscpack.media.video`).

Damaged or truncated videos are skipped and reported. With ``keep_damaged`` their decodable frames
are stored, and the report lists what is missing.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...plugin import FormatError, NotFoundError, read_video
from ..utils import SHARED_MEMORY, get_single_video_path, resize_by_short_edge
from .baseadapter import (
    Item,
    ListedAdapter,
    NumberedAdapter,
    Path,
    inside,
    refuse_duplicates,
)
from .imageadapters import FolderAdapter, path_of
from .listfiles import entries_of, objects_of, read_csv, read_gz_json, read_json

Frame = np.ndarray[Any, np.dtype[Any]]

_EXTENSIONS = (".mp4", ".webm")
# (vid)_(start)_(end), in six digits of seconds each.
_TRIMMED = re.compile(r"(.+)_\d{6}_\d{6}")


class VideoAdapter(ListedAdapter):
    """Videos; subclasses locate the file of an entry."""

    frame_size: int
    frame_rate: float | None = None
    keep_damaged = False

    def _set_options(
        self, folder: Path, frame_size: int, shm_dir_path: Path, keep_damaged: bool
    ) -> None:
        self.folder = folder
        self.frame_size = int(frame_size)
        self.shm_dir_path = shm_dir_path
        self.keep_damaged = keep_damaged

    def get_bursted_frames(self, video_path: Path) -> list[Frame]:
        """Return the frames of a video, resized if requested.

        Raises
        ------
        FormatError
            It is not a video, has no frames, or is damaged or truncated (unless `keep_damaged`).
        """
        with read_video(video_path, frame_rate=self.frame_rate) as video:
            frames = [resize_by_short_edge(frame, self.frame_size) for frame in video]
        if not video.report.ok and not self.keep_damaged:
            raise FormatError(video.report.describe())
        if not frames:
            raise FormatError("the video has no frames").at(path=video_path, whole="")
        return frames


class Custom20BNJsonVideoAdapter(VideoAdapter, NumberedAdapter):
    """Videos listed in a JSON file.

    Parameters
    ----------
    json_file : str or PathLike
        ``.json`` or ``.json.gz``: a list of objects with an ``id`` and a label.
    folder : str or PathLike
        Contains ``<id>/*.mp4``, exactly one per id.
    output_folder : str or PathLike
        Folder of ``label2idx.json``.
    shuffle : bool, optional
        Shuffle the items.
    frame_size : int, optional
        Pixels of the shorter edge; -1 keeps the size of frames.
    frame_rate : float, optional
        Frames per second; 0 reads every frame.
    shm_dir_path : str or PathLike, optional
        Ignored.
    label_name : str, optional
        Key of the label.
    remove_duplicate_ids : bool, optional
        Skip ids that are already in the output folder, and repeated ids.
    keep_damaged : bool, optional
        Store the decodable frames of damaged videos.

    Raises
    ------
    RuntimeError
        The file has another suffix.
    FormatError
        It does not contain such a list.
    DuplicateIdException
        An id is repeated, or all ids are already in the output folder.
    """

    def __init__(
        self,
        json_file: Path,
        folder: Path,
        output_folder: Path,
        shuffle: bool = False,
        frame_size: int = -1,
        frame_rate: float = 8,
        shm_dir_path: Path = SHARED_MEMORY,
        label_name: str = "template",
        remove_duplicate_ids: bool = False,
        *,
        keep_damaged: bool = False,
    ) -> None:
        self.json_file = json_file
        name = os.fspath(json_file)
        if name.endswith(".json.gz"):
            content = self.read_gz_json(json_file)
        elif name.endswith(".json"):
            content = self.read_json(json_file)
        else:
            raise RuntimeError("Wrong data file format (.json.gz or .json)")
        self.label_name = label_name
        self._set_options(folder, frame_size, shm_dir_path, keep_damaged)
        self.frame_rate = _rate(frame_rate)
        data = entries_of(json_file, content, "id", label_name)
        super().__init__(
            data, output_folder, label_name, shuffle=shuffle, remove=remove_duplicate_ids
        )

    def read_json(self, json_file: Path) -> Any:
        """Return the value in a JSON file."""
        return read_json(json_file)

    def read_gz_json(self, gz_json_file: Path) -> Any:
        """Return the value in a compressed JSON file."""
        return read_gz_json(gz_json_file)

    def _frames(self, meta: Item) -> Sequence[Any]:
        path = get_single_video_path(inside(self.folder, meta["id"]), format_="mp4")
        return self.get_bursted_frames(path)


class Custom20BNCsvWebmAdapter(VideoAdapter, NumberedAdapter):
    """Videos ``<id>.webm`` listed in a CSV file.

    Parameters
    ----------
    csv_file : str or PathLike
        Rows ``id;label``, or ``id`` alone, whose label is "dummy".
    folder : str or PathLike
        Contains ``<id>.webm``.
    output_folder : str or PathLike
        Folder of ``label2idx.json``.
    shuffle, frame_size, frame_rate, shm_dir_path, remove_duplicate_ids, keep_damaged : optional
        As in `Custom20BNJsonVideoAdapter`.
    label_name : str, optional
        Must be ``"label"``, the only label column of the file.

    Raises
    ------
    DuplicateIdException
        An id is repeated, or all ids are already in the output folder.
    """

    def __init__(
        self,
        csv_file: Path,
        folder: Path,
        output_folder: Path,
        shuffle: bool = False,
        frame_size: int = -1,
        frame_rate: float = 12,
        shm_dir_path: Path = SHARED_MEMORY,
        label_name: str = "label",
        remove_duplicate_ids: bool = False,
        *,
        keep_damaged: bool = False,
    ) -> None:
        data = self.read_csv(csv_file)
        if label_name not in ("label", "id"):
            raise ValueError(f"label_name must be 'label' for a CSV file, not {label_name!r}")
        self.label_name = label_name
        self._set_options(folder, frame_size, shm_dir_path, keep_damaged)
        self.frame_rate = _rate(frame_rate)
        super().__init__(
            data, output_folder, label_name, shuffle=shuffle, remove=remove_duplicate_ids
        )

    def read_csv(self, csv_file: Path) -> list[Item]:
        """Return the rows as dicts of ``id`` and ``label``."""
        return read_csv(csv_file, label="dummy")

    def get_single_video_file_path(self, folder_name: Path, format_: str = "webm") -> str:
        """Return the path of a video: `folder_name` with a suffix.

        Raises
        ------
        AssertionError
            The file does not exist.
        """
        path = f"{os.fspath(folder_name)}.{format_}"
        if not os.path.isfile(path):
            raise AssertionError(f"{path}: no such file")
        return path

    def _frames(self, meta: Item) -> Sequence[Any]:
        path = self.get_single_video_file_path(inside(self.folder, meta["id"]), format_="webm")
        return self.get_bursted_frames(path)


class VideoFolderAdapter(FolderAdapter, VideoAdapter):
    """Videos in a folder tree at their own frame rate, labelled with the name of the folder.

    Parameters
    ----------
    folder : str or PathLike
        Root of the tree; a trailing slash makes no difference.
    output_folder : str or PathLike
        Folder of ``label2idx.json``.
    file_extensions : sequence of str, optional
        Suffixes of video files.
    shuffle, frame_size, shm_dir_path, keep_damaged : optional
        As in `Custom20BNJsonVideoAdapter`.

    Raises
    ------
    DuplicateIdException
        Two videos have the same id: ``<last folder>-<file name>``.
    """

    def __init__(
        self,
        folder: Path,
        output_folder: Path,
        file_extensions: Sequence[str] = _EXTENSIONS,
        shuffle: bool = False,
        frame_size: int = -1,
        shm_dir_path: Path = SHARED_MEMORY,
        *,
        keep_damaged: bool = False,
    ) -> None:
        self.file_extensions = file_extensions
        self._set_options(folder, frame_size, shm_dir_path, keep_damaged)
        super().__init__(self.parse_folder(folder), output_folder, shuffle=shuffle)

    def _frames(self, meta: Item) -> Sequence[Any]:
        return self.get_bursted_frames(path_of(meta))


class _StoredMetaAdapter(VideoAdapter):
    """Files in `vid_storage`, with their metadata by id in a JSON file."""

    json_storage: dict[str, Item]

    def __init__(self, *, shuffle: bool) -> None:
        ids = [(self._id_of(file), file) for file in self.vid_storage]
        refuse_duplicates(ids)
        super().__init__([{"id": id_, "file": file} for id_, file in ids], shuffle=shuffle)
        self.vid_storage = [entry["file"] for entry in self.all_meta]

    vid_storage: list[str]

    def _id_of(self, file: str) -> str:
        raise NotImplementedError

    def _meta(self, meta: Item) -> Item:
        return self.json_storage.get(meta["id"], {})


class ActivitynetAdapter(_StoredMetaAdapter):
    """Videos ``<id>.<suffix>`` of one subset of Activitynet.

    Parameters
    ----------
    json_file : str or PathLike
        ``{"database": {id: {"subset": ..., ...}, ...}}``; the inner object is the metadata.
    folder : str or PathLike
        Contains the videos; files without an entry and partial downloads (``part``) are ignored.
    shuffle, frame_size, shm_dir_path, keep_damaged : optional
        As in `Custom20BNJsonVideoAdapter`. Unshuffled items are in the order of the file names.
    phase : str, optional
        The subset.
    """

    def __init__(
        self,
        json_file: Path,
        folder: Path,
        shuffle: bool = False,
        frame_size: int = -1,
        shm_dir_path: Path = SHARED_MEMORY,
        phase: str = "training",
        *,
        keep_damaged: bool = False,
    ) -> None:
        self.json_file = json_file
        self.json_storage = self.read_json(json_file)
        self._set_options(folder, frame_size, shm_dir_path, keep_damaged)
        self.set_video_storage(phase)
        super().__init__(shuffle=bool(shuffle))

    def read_json(self, json_file: Path) -> dict[str, Item]:
        """Return the entries by id."""
        content = read_json(json_file)
        if not isinstance(content, dict) or "database" not in content:
            raise FormatError("no object with a 'database'").at(path=json_file, whole="")
        return objects_of(json_file, content["database"])

    def set_video_storage(self, phase: str = "training") -> None:
        """List the videos of a subset."""
        self.vid_storage = [
            name
            for name in sorted(os.listdir(self.folder))
            if not name.endswith("part")
            and self.json_storage.get(self._id_of(name), {}).get("subset") == phase
            and os.path.isfile(os.path.join(self.folder, name))
        ]

    def _id_of(self, file: str) -> str:
        return file.split(".")[0]

    def _frames(self, meta: Item) -> Sequence[Any]:
        return self.get_bursted_frames(os.path.join(self.folder, meta["file"]))


class KineticsAdapter(_StoredMetaAdapter):
    """Trimmed videos of Kinetics, ``<label>/<id>_<start>_<end>.mp4``.

    Parameters
    ----------
    json_file : str or PathLike
        ``{id: {...}, ...}``; the inner object is the metadata.
    folder : str or PathLike
        Contains a folder of videos per label.
    shuffle, frame_size, shm_dir_path, keep_damaged : optional
        As in `Custom20BNJsonVideoAdapter`. Unshuffled items are in the order of the paths.
    """

    def __init__(
        self,
        json_file: Path,
        folder: Path,
        shuffle: bool = False,
        frame_size: int = -1,
        shm_dir_path: Path = SHARED_MEMORY,
        *,
        keep_damaged: bool = False,
    ) -> None:
        self.json_file = json_file
        self.json_storage = self.read_json(json_file)
        self._set_options(folder, frame_size, shm_dir_path, keep_damaged)
        self.set_video_storage()
        super().__init__(shuffle=bool(shuffle))

    def read_json(self, json_file: Path) -> dict[str, Item]:
        """Return the entries by id."""
        return objects_of(json_file, read_json(json_file))

    def set_video_storage(self) -> None:
        """List the videos, as paths that start with `folder`."""
        self.vid_storage = sorted(
            os.path.join(self.folder, label, name)
            for label in os.listdir(self.folder)
            if not label.startswith(".") and os.path.isdir(os.path.join(self.folder, label))
            for name in os.listdir(os.path.join(self.folder, label))
            if name.endswith(".mp4") and not name.startswith(".")
        )

    def _id_of(self, file: str) -> str:
        """Return the id in a file name, preferring a reading that has an entry."""
        stem = os.path.basename(file).removesuffix(".mp4")
        trimmed = _TRIMMED.fullmatch(stem)
        readings = [trimmed[1]] if trimmed else []
        readings += [stem, stem.split("_00")[0]]
        return next((id_ for id_ in readings if id_ in self.json_storage), readings[0])

    def _frames(self, meta: Item) -> Sequence[Any]:
        if meta["id"] not in self.json_storage:
            raise NotFoundError(f"{meta['file']}: no entry {meta['id']!r} in {self.json_file}")
        return self.get_bursted_frames(meta["file"])


def _rate(frame_rate: float) -> float | None:
    """Return a frame rate, or None for 0, which means every frame."""
    rate = float(frame_rate)
    if not rate >= 0:
        raise ValueError(f"frame_rate must be at least 0, not {frame_rate}")
    return rate or None
