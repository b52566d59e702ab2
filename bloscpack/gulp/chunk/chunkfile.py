"""A chunk of a Gulp directory: a file of JPEG records and its index.

An instance holds the index and, while it is open for writing, a file. Each read uses positional
access through its own descriptor, so threads, forked children and iterations are independent.
Written frames become visible with the index: data first, then the index under a temporary name,
synced and renamed.
"""

import io
import operator
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from typing import IO, Any

import numpy as np

from ...plugin import (
    ByteSource,
    FileChangedError,
    FileObjectSource,
    FileSource,
    FormatError,
    disk,
    errors_at,
    text_list,
)
from ..gulperrors import DuplicateIdException, UnknownItemError
from ..utils import jpeg_bytes_to_img
from .format import ImgInfo, lists_of, padding
from .jpegrecords import encode_frame, encode_frames, read_records
from .serializer import AbstractSerializer, folder_of, json_serializer

Selector = slice | Sequence[int] | np.ndarray[Any, Any] | None
Frames = list[Any]


def extract_input_for_getitem(element: Any) -> tuple[str, Any]:
    """Split an index into id and selector: ``id`` or ``(id, selector)``.

    Raises
    ------
    TypeError
        The index is not an int, a str or such a pair.
    """
    if isinstance(element, tuple) and len(element) == 2:
        return str(element[0]), element[1]
    if isinstance(element, int | str):
        return str(element), None
    raise TypeError("Undefined input type! id or (id, slice) expected")


class GulpChunk:
    """A pair of files with items, each with a list of frames and metadata.

    Parameters
    ----------
    data_file_path, meta_file_path : str or PathLike
        Data file and index; they need not exist.
    serializer : AbstractSerializer, optional
        Reads and writes the index.
    jpeg_decoder : callable, optional
        Converts the JPEG bytes of a frame to the result; by default to an array of pixels. Any
        other decoder is called in order, in the calling thread.

    Attributes
    ----------
    meta_dict : OrderedDict
        The index: ``{id: {"frame_info": [[loc, pad, length], ...], "meta_data": [{...}]}}``.
    """

    meta_dict: Any

    def __init__(
        self,
        data_file_path: str | os.PathLike[str],
        meta_file_path: str | os.PathLike[str],
        serializer: AbstractSerializer = json_serializer,
        jpeg_decoder: Callable[[bytes], Any] = jpeg_bytes_to_img,
    ) -> None:
        self.jpeg_decoder = jpeg_decoder
        self.serializer = serializer
        self.data_file_path = data_file_path
        self.meta_file_path = meta_file_path
        self._load_index()
        # Owner of each id of the directory, shared by its chunks.
        self._owners: dict[str, Any] = {}
        self._opened: list[IO[bytes]] = []
        self._last: IO[bytes] | None = None

    @property
    def fp(self) -> IO[bytes] | None:
        """The data file as opened last, even if it has been closed since; None if never opened."""
        try:
            return self._opened[-1]
        except IndexError:
            return self._last

    @fp.setter
    def fp(self, file: IO[bytes] | None) -> None:
        self._last = file

    def __getstate__(self) -> dict[str, Any]:
        """Leave out open files and the ids of the directory."""
        return {**self.__dict__, "_owners": {}, "_opened": [], "_last": None}

    def __contains__(self, id_: object) -> bool:
        return str(id_) in self.meta_dict

    def __getitem__(self, element: Any) -> tuple[Frames, dict[Any, Any]]:
        """Return ``read_frames`` of ``chunk[id]`` or ``chunk[id, selector]``."""
        id_, selector = extract_input_for_getitem(element)
        return self.read_frames(id_, selector)

    def __iter__(self) -> Iterator[tuple[Frames, dict[Any, Any]]]:
        return self.iter_all()

    @contextmanager
    def open(self, flag: str = "rb") -> Iterator[None]:
        """Open the chunk for the duration of a ``with`` block.

        Parameters
        ----------
        flag : {"rb", "wb", "ab"}
            Read, overwrite or append. "wb" empties the chunk, including the index. At the end of
            the block, written items are flushed; after an error they are discarded. A process that
            was forked in the block does neither.

        Raises
        ------
        NotImplementedError
            The flag is another one.
        ValueError
            It is open for writing already.
        FileChangedError
            Another writer has changed the index since it was read ("ab"); or does so in the block.
        OSError
            The file cannot be opened.
        """
        if flag not in ("rb", "wb", "ab"):
            raise NotImplementedError(f"This file does not support the mode: '{flag}'")
        if flag != "rb" and any(file.writable() for file in self._opened):
            raise ValueError(
                f"{os.fsdecode(self.data_file_path)} is open for writing already: use that block"
            )
        file: IO[bytes] = open(self.data_file_path, flag)  # noqa: SIM115 - closed below
        self._opened.append(file)
        pid = os.getpid()
        try:
            if flag == "wb":
                self._clear_index()
            elif flag == "ab":
                self._check_unchanged()
            yield
            if flag != "rb" and os.getpid() == pid:
                self.flush()
        except BaseException:
            if flag != "rb" and os.getpid() == pid:
                self._roll_back(file, flag)
            raise
        finally:
            self._last = file
            self._opened.remove(file)
            if os.getpid() != pid:
                file.raw.close()  # type: ignore[attr-defined]  # drops the buffer, the parent's
            file.close()

    def _clear_index(self) -> None:
        """Empty the index, on disk as well, because it would refer to the old data."""
        self.meta_dict = OrderedDict()
        self._release_ids()
        with suppress(FileNotFoundError):
            disk.unlink(os.fspath(self.meta_file_path))
        self._tag = ""

    def _roll_back(self, file: IO[bytes], flag: str) -> None:
        """Undo an append; remove the data file if the chunk was being overwritten."""
        with suppress(OSError, ValueError):
            file.close()
        if flag == "wb":
            with suppress(OSError):
                disk.unlink(os.fspath(self.data_file_path))
        self._load_index()
        self._release_ids()

    def _release_ids(self) -> None:
        """Release the ids that are not in the index."""
        own = [id_ for id_, owner in self._owners.items() if owner == self.data_file_path]
        for id_ in own:
            if id_ not in self.meta_dict:
                del self._owners[id_]

    def flush(self) -> None:
        """Write the frames, then the index; both are durable afterwards."""
        file = self._file()
        self._check_unchanged()
        with disk.naming(os.fsdecode(self.data_file_path)):
            file.flush()
            # A file that the caller has set as `fp` may be in memory, without a descriptor.
            if any(file is opened for opened in self._opened):
                disk.sync(file.fileno())
        self.serializer.dump(self.meta_dict, self.meta_file_path)
        self._tag = disk.tag_of(self.meta_file_path)

    def _load_index(self) -> None:
        self._tag = disk.tag_of(self.meta_file_path)
        self.meta_dict = self._get_or_create_dict()

    def _check_unchanged(self) -> None:
        """Raise if another writer has changed the index, whose items would be lost."""
        if disk.tag_of(self.meta_file_path) != self._tag:
            raise FileChangedError(
                "the index was changed since it was read: make a new GulpChunk, and append again"
            ).at(path=self.meta_file_path, whole=folder_of(self.meta_file_path))

    def append(self, id_: Any, meta_data: Any, frames: Iterable[Any]) -> None:
        """Append an item; the chunk must be open for writing.

        Parameters
        ----------
        id_ : str or other
            The id is ``str(id_)``. If the chunk has it, frames are added and its metadata stay.
        meta_data : mapping
            JSON-serializable; numpy numbers are converted.
        frames : iterable of (ndarray or bytes)
            Arrays, uint8 of ``(H, W)`` or ``(H, W, 3)``, are encoded; JPEG bytes are stored
            unchanged.

        Raises
        ------
        DuplicateIdException
            Another chunk of the directory has this id.
        TypeError
            The metadata are not a mapping, or not JSON-serializable.
        ValueError
            A frame cannot be encoded.

        Notes
        -----
        After an error nothing of the item is stored.
        """
        id_ = str(id_)
        if not self._file().writable():
            raise io.UnsupportedOperation('the chunk is not open for writing: open("ab")')
        if not isinstance(meta_data, Mapping):
            raise TypeError(f"meta_data must be a mapping, not {type(meta_data).__name__}")
        check = getattr(self.serializer, "check", None)
        if check is not None:
            check(meta_data)
        self._claim_id(id_)
        # Encoded before the first write, so that an item is stored whole or not at all.
        try:
            encoded = list(encode_frames(frames))
        except BaseException:
            if id_ not in self.meta_dict:
                self._owners.pop(id_, None)  # another chunk may store the item
            raise
        with errors_at(self.meta_file_path, folder_of(self.meta_file_path)):
            lists_of(id_, self._item(id_))
        self._append_meta(id_, deepcopy(meta_data))  # the caller may use it again
        for data in encoded:
            self._write_frame(id_, data)

    def _claim_id(self, id_: str) -> None:
        owner = self._owners.setdefault(id_, self.data_file_path)
        if owner != self.data_file_path:
            raise DuplicateIdException(f"{os.fsdecode(owner)} has an item {id_!r:.80} already")

    def _append_meta(self, id_: Any, meta_data: Any) -> None:
        self._item(id_)["meta_data"].append(meta_data)

    def _write_frame(self, id_: Any, frame: Any) -> None:
        file = self._file()
        data = encode_frame(frame)
        pad = padding(len(data))
        info = ImgInfo(loc=file.tell(), pad=pad, length=len(data) + pad)
        with disk.naming(os.fsdecode(self.data_file_path)):
            file.write(data + bytes(pad))
        self._item(id_)["frame_info"].append(info)

    def _item(self, id_: Any) -> Any:
        """Return the index entry of an item, creating it if necessary."""
        id_ = str(id_)
        if id_ not in self.meta_dict:
            self.meta_dict[id_] = self._default_factory()
        return self.meta_dict[id_]

    @staticmethod
    def _default_factory() -> OrderedDict[str, list[Any]]:
        return OrderedDict([("frame_info", []), ("meta_data", [])])

    _pad_image = staticmethod(padding)

    def _get_or_create_dict(self) -> Any:
        if os.path.exists(self.meta_file_path):
            return self.serializer.load(self.meta_file_path)
        return OrderedDict()

    def _file(self) -> IO[bytes]:
        """Return the file to write to: one also open for reading, or the one opened last."""
        opened = reversed(self._opened)
        file = next((file for file in opened if file.writable()), self.fp)
        if file is None:
            raise ValueError(
                f"{os.fsdecode(self.data_file_path)} is not open: use 'with chunk.open():'"
            )
        return file

    def read_frames(self, id_: Any, slice_: Selector = None) -> tuple[Frames, dict[Any, Any]]:
        """Return the frames and metadata of an item; the chunk must be open.

        Parameters
        ----------
        id_ : int or str
            Id of the item.
        slice_ : slice, or list or array of int, optional
            Frames to return, in this order; all by default.

        Returns
        -------
        frames : list
            Arrays, or the results of `jpeg_decoder`.
        meta_data : dict
            A shallow copy.

        Raises
        ------
        UnknownItemError
            No item has this id; a TypeError and a KeyError.
        TypeError, IndexError
            The selector has another type, or a frame is out of range.
        FormatError, FrameError
            The index or a frame is damaged; both are ValueErrors.
        ValueError
            The chunk is not open.
        """
        if any(file.readable() for file in self._opened):
            return self._read_item(id_, slice_)
        file = self._file()
        if file.closed:
            raise ValueError(
                f"{os.fsdecode(self.data_file_path)} is closed: use 'with chunk.open():'"
            )
        if not file.readable():
            raise io.UnsupportedOperation("the chunk is open for writing")
        return self._read(FileObjectSource(file), id_, slice_)  # a file set by the caller

    def _read_item(self, id_: Any, slice_: Selector = None) -> tuple[Frames, dict[Any, Any]]:
        """Implement `read_frames`; the chunk need not be open."""
        with closing(FileSource(self.data_file_path)) as source:
            return self._read(source, id_, slice_)

    def _read(
        self, source: ByteSource, id_: Any, selector: Selector
    ) -> tuple[Frames, dict[Any, Any]]:
        id_ = str(id_)
        with errors_at(self.data_file_path, folder_of(self.data_file_path)):
            found = self._get_frame_infos(id_)
            if found is None:
                raise UnknownItemError(f"no item {id_!r:.80}")
            triplets, meta_data = found
            numbers = _select_ordinals(selector, len(triplets))
            wanted = [(number, triplets[number]) for number in numbers]
            return read_records(source, id_, wanted, self.jpeg_decoder), meta_data

    def _get_frame_infos(self, id_: Any) -> tuple[list[Any], dict[Any, Any]] | None:
        """Return frame places and a copy of the metadata; None if no item has this id."""
        id_ = str(id_)
        if id_ not in self.meta_dict:
            return None
        triplets, entries = lists_of(id_, self.meta_dict[id_])
        try:
            return triplets, dict(entries[0])
        except (IndexError, TypeError, ValueError) as err:
            raise FormatError(f"item {id_!r:.80}: no object in meta_data: {err!r}") from err

    def iter_all(
        self, accepted_ids: Iterable[str] | None = None, shuffle: bool = False
    ) -> Iterator[tuple[Frames, dict[Any, Any]]]:
        """Iterate over frames and metadata of the items.

        Parameters
        ----------
        accepted_ids : iterable of str, optional
            Ids of the items to return, in the order of the chunk.
        shuffle : bool, optional
            Shuffle the items, with ``numpy.random.shuffle``.
        """
        ids = list(self.meta_dict)
        if accepted_ids is not None:
            accepted = set(text_list("accepted_ids", accepted_ids))
            ids = [id_ for id_ in ids if id_ in accepted]
        if shuffle:
            np.random.shuffle(ids)  # programs seed it to repeat GulpIO2's order
        with self.open("rb"):
            for id_ in ids:
                frames, meta_data = self.read_frames(id_)
                yield frames, meta_data


def _select_ordinals(selector: Selector, nframes: int) -> list[int]:
    if selector is None:
        return list(range(nframes))
    if isinstance(selector, slice):
        return list(range(*selector.indices(nframes)))
    is_mask = isinstance(selector, np.ndarray) and selector.dtype.kind == "b"
    # NumPy 1.26 would take its items for 0 and 1.
    if isinstance(selector, list | np.ndarray) and not is_mask:
        ordinals = range(nframes)
        return [ordinals[operator.index(number)] for number in selector]
    raise TypeError(
        f"frames are selected by a slice or a list or array of ints, not {selector!r:.80}"
    )
