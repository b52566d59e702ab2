"""Tar files of webdataset: a sample is a clip, and its images or array are the frames.

Members with the same path up to the first dot of the name are a sample. JPEG and PNG members are
its frames, ordered by name; or a ``npy`` member of shape (T, H, W), (T, H, W, C) or (H, W) is. The
fields of a ``json`` member are the metadata, with ``cls`` and ``txt`` members beside them.
"""

import io
import json
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ...exceptions import FormatError, UnsupportedError
from ...filetypes.arrayclips import ArrayClip, Clips, clip_id
from ...filetypes.arraysource import ArraySource, Rows
from ...filetypes.clipcopy import StoreWriter, arrays_of, attrs_of, images_of, is_images, meta_of
from ...filetypes.copyjob import Conversion, CopyJob, Tally, write_copy
from ...filetypes.inventory import attributes, quoted
from ...frames.indexing import IndexedClip
from ...frames.protocol import Clip, FrameSelection, FrameSource, frame_indices
from ...media import image
from ...storage.file import open_source
from ...storage.protocol import ByteSource, errors_at
from ...storage.window import WindowSource
from ...types import AnyArray
from .library import SourceStream, errors_of
from .npy import open_npy

_WHAT = "a tar file"
_SUFFIXES = {"jpeg": "jpg", "png": "png"}
_IMAGES = ("jpg", "jpeg", "png")
# Field of the metadata with an id that is not a key.
_ID = "bloscpack_id"
_MAX_TEXT_NBYTES = 16 << 20


class ImageClip(IndexedClip):
    """Images in a file as a clip; see `frames.protocol.Clip`.

    Parameters
    ----------
    id_ : str
        Its id.
    source : ByteSource
        File that the images are in.
    places : list of (int, int)
        Offset and size of each.
    meta : dict
        Metadata.
    """

    def __init__(
        self, id_: str, source: ByteSource, places: list[tuple[int, int]], meta: dict[str, Any]
    ) -> None:
        self.id = id_
        self.meta = meta
        self._source = source
        self._places = places

    def _content(self, number: int) -> bytes:
        return bytes(self._source.read_at(*self._places[number]))

    def _probe(self, number: int = 0) -> image.ImageInfo:
        with errors_at(self._source.name, whole=""):
            return image.probe(self._content(number))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of frames, and the shape of the first."""
        return (len(self), *self._probe().shape) if self._places else (0,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the pixels."""
        return self._probe().dtype if self._places else np.dtype("u1")

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._places)

    def read(self, selection: FrameSelection = None, *, out: AnyArray | None = None) -> AnyArray:
        """Return frames in one array; see `frames.protocol.Clip`."""
        indices, is_single = frame_indices(selection, len(self))
        with errors_at(self._source.name, whole=""):
            frames = [image.decode(self._content(int(each))) for each in indices]
        found = np.stack(frames) if frames else np.empty((0, *self.shape[1:]), self.dtype)
        found = found[0] if is_single else found
        if out is None:
            return found
        out[...] = found
        return out

    def read_images(self, selection: FrameSelection = None) -> list[bytes]:
        """Return the bytes of images."""
        found = [self._content(int(each)) for each in frame_indices(selection, len(self)).indices]
        with errors_at(self._source.name, whole=""):
            for each in found:
                image.probe(each)
        return found


@contextmanager
def open_image(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[Clips]:
    """Yield one JPEG or PNG file as a clip of one frame."""
    id_ = clip_id(source.name) or "image"
    yield Clips({id_: ImageClip(id_, source, [(0, source.size())], {})}, source.name)


@contextmanager
def open_webdataset(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[Clips]:
    """Yield the samples of a tar file as clips; members of other types are left out and reported.

    Raises
    ------
    FormatError
        The file is damaged, or a sample is.
    """
    samples: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    end = 0
    with errors_of(_WHAT, source.name):
        stream = io.BufferedReader(SourceStream(source))
        # Not compressed: members are read later, by their offsets.
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                end = member.offset_data + member.size
                if member.issparse() or end > source.size():
                    raise FormatError(f"member {member.name!r:.80} is sparse or cut off")
                folder, slash, name = member.name.rpartition("/")
                key, _, field = name.partition(".")
                if member.isfile() and key and field:
                    fields = samples[folder + slash + key]
                    fields[field.lower()] = member.offset_data, member.size
    if source.size() < end + 1024:  # two blocks of zeros
        raise FormatError(f"{_WHAT}: it is cut off at {source.size()} bytes").at(
            path=source.name, whole=""
        )
    lost: list[str] = []
    clips = dict(_clip(source, key, fields, lost) for key, fields in samples.items())
    if len(clips) != len(samples):
        raise FormatError(f"{_WHAT}: two samples have the same id").at(path=source.name, whole="")
    yield Clips(clips, source.name, tuple(lost))


def _clip(
    source: ByteSource, key: str, fields: dict[str, tuple[int, int]], lost: list[str]
) -> tuple[str, Clip]:
    """Return the id of a sample, and the sample as a clip."""
    meta: dict[str, Any] = {}
    with errors_of(f"{_WHAT}: sample {key!r:.80}", source.name):
        for field in ("cls", "txt", "json"):
            offset, nbytes = fields.pop(field, (0, -1))
            if nbytes > _MAX_TEXT_NBYTES:
                raise ValueError(f"{field} of {nbytes} bytes")
            if nbytes >= 0:
                text = bytes(source.read_at(offset, nbytes)).decode()
                value: Any = text
                if field != "txt":
                    with suppress(ValueError):
                        value = json.loads(text)
                is_object = field == "json" and isinstance(value, dict)
                meta |= value if is_object else {field: value}
        id_ = str(meta.pop(_ID, key))
        images = sorted(each for each in fields if each.rpartition(".")[2] in _IMAGES)
        arrays = [] if images else [each for each in fields if each.rpartition(".")[2] == "npy"]
        others = fields.keys() - set(images) - set(arrays[:1])
        lost += [f"member {quoted(f'{key}.{field}')}" for field in sorted(others)]
        if not arrays:
            return id_, ImageClip(id_, source, [fields[each] for each in images], meta)
        window = WindowSource(source, source.name or _WHAT, fields[arrays[0]])
        with open_npy(window, "", nthreads=1) as array:
            rows = array.rows
            if not rows.shape:
                raise ValueError("its array has no axes, and so no frames")
            if len(rows.shape) == 2:
                rows = Rows((1, *rows.shape), rows.dtype, lambda part: array.rows[part[1:]][None])
            return id_, ArrayClip(id_, ArraySource(rows, attrs=meta))


def copy_to_webdataset(source: FrameSource, job: CopyJob) -> Conversion:
    """Copy all clips of a source to a tar file."""
    job.leave_out(*attributes(attrs_of(source)))
    return write_copy("webdataset", source, TarWriter(source, "fast", job.nthreads), job)


class TarWriter(StoreWriter):
    """Writes the clips of a source to a tar file: images byte for byte, arrays as ``npy``."""

    def write(self, path: str, tally: Tally) -> None:
        """Write all clips."""
        keys: set[str] = set()
        with tarfile.open(path, "x", format=tarfile.PAX_FORMAT) as archive:
            for id_ in self._source:
                clip = self._source[id_]
                key = _key(id_, keys)
                meta = meta_of(clip) | ({} if key == id_ else {_ID: id_})
                if is_images(clip):
                    number = 0
                    for images in images_of(clip):
                        for content in images:
                            suffix = _SUFFIXES[image.probe(content).kind]
                            field = suffix if len(clip) == 1 else f"{number:06d}.{suffix}"
                            _add(archive, f"{key}.{field}", len(content), iter([content]))
                            number += 1
                else:
                    head = _npy_head(clip)
                    nbytes = int(np.prod(clip.shape)) * clip.dtype.itemsize
                    frames = (part.tobytes() for part in arrays_of(clip))
                    _add(archive, f"{key}.npy", len(head) + nbytes, _chain(head, frames))
                if meta or not len(clip):
                    content = json.dumps(meta).encode()
                    _add(archive, f"{key}.json", len(content), iter([content]))
                tally.add_frames(len(clip), is_image=is_images(clip))
                tally.add_clip()

    def difference(self, path: str, tally: Tally) -> str | None:
        """Return a description of the first difference from the source, or None."""
        with (
            closing(open_source(path)) as opened,
            open_webdataset(opened, "", nthreads=1) as written,
        ):
            return self.difference_from(written, tally)


def _key(id_: str, keys: set[str]) -> str:
    """Return a key for a clip, which has no dot in its name, and note it.

    It is safe to extract: no part of it is "..".
    """
    folder, slash, name = id_.replace("\0", "_").rpartition("/")
    parts = folder.strip("/").split("/")
    folder = "/".join("_" if each in (".", "..") else each for each in parts)
    stem, _, suffix = name.rpartition(".")
    if stem and suffix.lower() in _IMAGES:
        name = stem
    key = base = f"{folder}{slash}{name.replace('.', '_') or '_'}".lstrip("/")
    number = 1
    while key in keys:
        number += 1
        key = f"{base}_{number}"
    keys.add(key)
    return key


def _npy_head(clip: Clip) -> bytes:
    if clip.dtype.kind not in "biufc":
        raise UnsupportedError(
            f"clip {clip.id!r:.80}: a tar file cannot hold items of {clip.dtype}"
        )
    stream = io.BytesIO()
    header = {"descr": clip.dtype.str, "fortran_order": False, "shape": clip.shape}
    npy.write_array_header_1_0(stream, header)
    return stream.getvalue()


def _chain(head: bytes, frames: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from frames


def _add(archive: tarfile.TarFile, name: str, nbytes: int, parts: Iterator[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size = nbytes
    archive.addfile(member, io.BufferedReader(_PartStream(parts)))


class _PartStream(io.RawIOBase):
    """Stream of parts that are made when they are read."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._rest = memoryview(part)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
