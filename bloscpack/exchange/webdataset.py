"""Tar files of webdataset: a sample is a clip, and its images or array are the frames.

Members with the same path up to the first dot of the name are a sample. JPEG and PNG members are
its frames, ordered by name; or a ``npy`` member of shape (T, H, W), (T, H, W, C) or (H, W) is. The
fields of a ``json`` member are the metadata, with ``cls`` and ``txt`` members beside them.
"""

import io
import json
import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from posixpath import dirname, join, normpath
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, TypeAlias

from ..plugin import (
    ArrayClip,
    ArraySource,
    ByteSource,
    Clip,
    Clips,
    ClipWriter,
    Conversion,
    CopyJob,
    FormatError,
    FrameSource,
    ImageClip,
    Inventory,
    ObjectNumpyArrayRejection,
    Rows,
    Tally,
    UnsupportedError,
    WindowSource,
    array_of_clip,
    clip_id,
    data_of,
    image,
    is_images,
    leave_out_of_clips,
    meta_of,
    natural_key,
    open_source,
    quoted,
    write_copy,
)
from .library import SourceStream, errors_of
from .npy import npy_array, write_npy

_WHAT = "a tar file"
_SUFFIXES = {"jpeg": "jpg", "png": "png"}
_IMAGES = ("jpg", "jpeg", "png")
# Field of the metadata with an id that is not a key.
_ID = "bloscpack_id"
# Names of images whose order says all: KEY.jpg, KEY.000000.jpg.
_NUMBERED = re.compile(rf"([0-9]+\.)?({'|'.join(_IMAGES)})")
_MAX_TEXT_NBYTES = 16 << 20
_BLOCK_NBYTES = 1 << 20
# Links that lead to each other; the kernel follows as many.
_MAX_LINKS = 40
# Headers that describe the member itself.
_PAX_FIELDS = {*tarfile.PAX_FIELDS, "atime", "ctime", "charset", "hdrcharset"}


@contextmanager
def open_image(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[Clips]:
    """Yield one JPEG or PNG file as a clip of one frame."""
    id_ = clip_id(source.name) or "image"
    inventory = Inventory()
    clip = _image_clip(id_, source, [(0, source.size())], {}, inventory)
    yield Clips({id_: clip}, source.name, inventory)


@contextmanager
def open_webdataset(source: ByteSource, inner: str, *, nthreads: int | None) -> Iterator[Clips]:
    """Yield the samples of a tar file as clips."""
    inventory = Inventory()
    samples: dict[str, dict[str, _File]] = defaultdict(dict)
    with errors_of(_WHAT, source.name):
        for file in _files(source, inventory):
            folder, slash, name = file.name.rpartition("/")
            key, _, field = name.partition(".")
            if key and field:
                samples[folder + slash + key].setdefault(field.lower(), file)
    clips = dict(_clip(source, key, fields, inventory) for key, fields in samples.items())
    if len(clips) != len(samples):
        raise FormatError(f"{_WHAT}: two samples have the same id").at(path=source.name, whole="")
    yield Clips(clips, source.name, inventory)


# Place of the content of a file; or the name that a link leads to; or None for any other type.
_Target: TypeAlias = tuple[int, int] | str | None


class _File(NamedTuple):
    """File in a tar file, or a link to one."""

    name: str
    place: tuple[int, int]  # offset and size
    text: str  # in the inventory


def _files(source: ByteSource, inventory: Inventory) -> Iterator[_File]:
    """Yield the files of a tar file, and the links to them, each with the place of its content.

    As extraction does, the last of several members with one name replaces the others, and archives
    that follow each other are one.
    """
    stream = io.BufferedReader(SourceStream(source))
    found: dict[str, tuple[str, _Target]] = {}
    start: int | None = 0
    while start is not None:
        stream.seek(start)
        # Not compressed: members are read later, by their offsets.
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                name = normpath(member.name)
                if name in found:
                    inventory.add(f"earlier member {quoted(name)}")
                text = f"{_kind(member)} {quoted(name)}"
                inventory.add(text)
                target = _target(member)
                if member.islnk() and isinstance(target, str):  # to what has that name so far
                    target = found.get(target, (text, target))[1]
                found[name] = text, target
                for key in sorted(member.pax_headers.keys() - _PAX_FIELDS):
                    if not key.startswith("GNU.sparse."):
                        inventory.add(f"pax header {quoted(key)}")
            start = _next_archive(source, archive.offset, inventory)
    yield from _resolved(found)
    folders = {name[:at] for name in found for at, char in enumerate(name) if char == "/"}
    # A folder is in the names of its members.
    inventory.carry(*(text for name, (text, _) in found.items() if name in {".", *folders}))


def _resolved(found: dict[str, tuple[str, _Target]]) -> Iterator[_File]:
    """Yield the files among members and links."""
    for name, (text, target) in found.items():
        for _ in range(_MAX_LINKS):
            if not isinstance(target, str):
                break
            target = found.get(target, (text, None))[1]
        if isinstance(target, tuple):
            yield _File(name, target, text)


def _target(member: tarfile.TarInfo) -> _Target:
    """Return the place of a file, the name that a link leads to, or None."""
    if member.islnk():
        return normpath(member.linkname)
    if member.issym():
        return normpath(join(dirname(member.name), member.linkname))
    is_adjacent = member.isfile() and not member.issparse()
    return (member.offset_data, member.size) if is_adjacent else None


def _kind(member: tarfile.TarInfo) -> str:
    if member.issparse():
        return "sparse member"
    if member.isdev():
        return "pipe" if member.isfifo() else "device"
    return "folder" if member.isdir() else "member"


def _next_archive(source: ByteSource, end: int, inventory: Inventory) -> int | None:
    """Return the place of an archive behind one whose members end at `end`; None without one.

    Raises
    ------
    FormatError
        The header of a member is damaged, or the archive is cut off.
    """
    block = bytes(source.read_at(end, tarfile.BLOCKSIZE))
    if any(block):  # tarfile takes a damaged header for the end
        raise FormatError(f"the header of the member at byte {end} is damaged")
    if source.size() < end + 2 * tarfile.BLOCKSIZE:
        raise FormatError(f"it is cut off at {source.size()} bytes")
    while not any(block):
        end += len(block)
        block = bytes(source.read_at(end, _BLOCK_NBYTES))
        if not block:
            return None
    start = end + len(block) - len(block.lstrip(b"\0"))
    start -= start % tarfile.BLOCKSIZE
    try:
        tarfile.TarInfo.frombuf(
            bytes(source.read_at(start, tarfile.BLOCKSIZE)), "utf-8", "surrogateescape"
        )
    except tarfile.TarError:
        inventory.add(f"trailing bytes after the end of the archive: {source.size() - start} bytes")
        return None
    return start


def _clip(
    source: ByteSource, key: str, fields: dict[str, _File], inventory: Inventory
) -> tuple[str, Clip]:
    """Return the id of a sample, and the sample as a clip."""
    meta: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    with errors_of(f"{_WHAT}: sample {key!r:.80}", source.name):
        for field in ("cls", "txt", "json"):
            if field in fields:
                offset, nbytes = fields[field].place
                if nbytes > _MAX_TEXT_NBYTES:
                    continue  # it stays in the inventory
                try:
                    text = bytes(source.read_at(offset, nbytes)).decode()
                except UnicodeDecodeError:
                    continue
                texts[field] = _value(field, text, fields[field].text, inventory)
                is_object = field == "json" and isinstance(texts[field], dict)
                meta |= texts[field] if is_object else {field: texts[field]}
        used = [field for field in texts if field == "json" or meta[field] is texts[field]]
        id_ = str(meta.pop(_ID, key))
        kinds = {field: field.rpartition(".")[2] for field in fields}
        images = sorted((field for field in fields if kinds[field] in _IMAGES), key=natural_key)
        arrays = [] if images else [field for field in fields if kinds[field] == "npy"]
        inventory.carry(*(fields[field].text for field in [*used, *images]))
        if not all(map(_NUMBERED.fullmatch, images)):
            inventory.add(f"names of the images of {quoted(key)}: {', '.join(images):.80}")
        if not arrays:
            places = [fields[each].place for each in images]
            return id_, _image_clip(id_, source, places, meta, inventory)
        window = WindowSource(source, source.name or _WHAT, fields[arrays[0]].place)
        try:
            array = npy_array(window)
        except (ObjectNumpyArrayRejection, UnsupportedError):  # it stays in the inventory
            return id_, _image_clip(id_, source, [], meta, inventory)
        rows = array.rows
        inventory.carry(fields[arrays[0]].text)
        if not rows.shape or rows.dtype.kind in "SUV":
            inventory.add(f"{fields[arrays[0]].text}, which has {rows.dtype} of {rows.shape}")
            return id_, _image_clip(id_, source, [], meta, inventory)
        inventory.add(*(f"{quoted(key)}: {text}" for text in array.left_out))
        if len(rows.shape) == 2:
            rows = Rows((1, *rows.shape), rows.dtype, lambda part: array.rows[part[1:]][None])
        return id_, ArrayClip(id_, ArraySource(rows, attrs=meta))


def _image_clip(
    id_: str,
    source: ByteSource,
    places: list[tuple[int, int]],
    meta: dict[str, Any],
    inventory: Inventory,
) -> ImageClip:
    def read(number: int) -> bytes:
        return bytes(source.read_at(*places[number]))

    return ImageClip(id_, len(places), read, meta, source.name, inventory)


def _value(field: str, text: str, member: str, inventory: Inventory) -> Any:
    """Return the value of a member of text: only the number of a class is a number."""

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            inventory.add(f"earlier values of keys that {member} repeats")
        return found

    if field == "json":
        with suppress(ValueError):
            return json.loads(text, object_pairs_hook=as_dict)
    is_number = field == "cls" and re.fullmatch("0|-?[1-9][0-9]{0,17}", text.strip())
    return int(text) if is_number else text


def copy_to_webdataset(source: FrameSource, job: CopyJob) -> Conversion:
    """Copy all clips of a source to a tar file."""
    leave_out_of_clips(job, source)
    return write_copy("webdataset", source, TarWriter(source, job), job)


class TarWriter(ClipWriter):
    """Writes the clips of a source to a tar file: images byte for byte, arrays as ``npy``."""

    def write(self, path: str, tally: Tally) -> None:
        """Write all clips."""
        keys: set[str] = set()
        with tarfile.open(path, "x", format=tarfile.PAX_FORMAT) as archive:
            for id_ in self._source:
                clip = self._source[id_]
                self.check_turns(clip)
                key = _key(id_, keys)
                meta = meta_of(clip) | ({} if key == id_ else {_ID: id_})
                if is_images(clip):
                    for number, content in enumerate(data_of(clip)):
                        suffix = _SUFFIXES[image.probe(content).kind]
                        field = suffix if len(clip) == 1 else f"{number:06d}.{suffix}"
                        _add(archive, f"{key}.{field}", io.BytesIO(content))
                else:
                    with TemporaryFile() as stream:
                        write_npy(stream, array_of_clip(self._source, id_), lambda _: None)
                        _add(archive, f"{key}.npy", stream)
                if meta or not len(clip):
                    _add(archive, f"{key}.json", io.BytesIO(json.dumps(meta).encode()))
                tally.add_frames(len(clip), is_image=is_images(clip))
                tally.advance()

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


def _add(archive: tarfile.TarFile, name: str, stream: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    archive.addfile(member, stream)
