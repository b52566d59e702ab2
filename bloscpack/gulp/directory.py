"""A Gulp directory: the chunks of a folder as one collection."""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..plugin import NotFoundError, UnsupportedError, errors_at, importing, is_url, notice, shown
from .chunk.chunkfile import Frames, GulpChunk, extract_input_for_getitem
from .chunk.format import LABELS_NAME, Listing, chunk_names, list_chunks
from .gulperrors import DirectoryError
from .ingest.listfiles import read_json
from .utils import jpeg_bytes_to_img


def list_folder(folder: str | os.PathLike[str]) -> Listing:
    """Return the chunks in a folder; a missing folder has none.

    Data files without an index are logged: their writer is still running or was killed.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        names = []
    return listing_of(names, os.fsdecode(folder))


def listing_of(names: Iterable[str], folder: str) -> Listing:
    """Return the chunks among the file `names` of a folder; as for `list_folder`."""
    with errors_at(folder):
        listing = list_chunks(names)
    if listing.orphans:
        first, count = listing.orphans[0], len(listing.orphans)
        more = f" (and {count - 1} more files like it)" if count > 1 else ""
        notice("%s: %s has no index and is left out%s", folder, first, more)
    return listing


class GulpDirectory:
    """The chunks of a folder.

    Parameters
    ----------
    output_dir : str or PathLike
        The folder; a missing one has no chunks.
    jpeg_decoder : callable, optional
        See `GulpChunk`.

    Attributes
    ----------
    chunk_objs_lookup : OrderedDict
        `GulpChunk` by chunk number, in the order of the file names as text.
    all_meta_dicts : list of OrderedDict
        The index of each chunk, in that order.
    num_chunks : int
        Number of chunks.
    chunk_lookup : dict
        Chunk number by id.
    merged_meta_dict : dict
        Index entry by id.

    Raises
    ------
    DirectoryError
        The files do not match, or two chunks have the same id; an AssertionError.
    FormatError
        An index is damaged; a ValueError.
    UnsupportedError
        The folder is a URL.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str],
        jpeg_decoder: Callable[[bytes], Any] = jpeg_bytes_to_img,
    ) -> None:
        if is_url(output_dir):
            raise UnsupportedError(
                "GulpDirectory takes a local folder: bloscpack.frames.open reads one behind a URL"
            ).at(path=shown(os.fspath(output_dir)))
        self.output_dir = output_dir
        self.jpeg_decoder = jpeg_decoder
        self.chunk_objs_lookup: OrderedDict[int, GulpChunk] = OrderedDict(
            (number, self._chunk(data, meta))
            for number, data, meta in list_folder(output_dir).chunks
        )
        self.all_meta_dicts = [chunk.meta_dict for chunk in self.chunk_objs_lookup.values()]
        self.num_chunks = len(self.chunk_objs_lookup)
        self.chunk_lookup: dict[str, int] = {}
        self.merged_meta_dict: dict[str, Any] = {}
        self._owners: dict[str, Any] = {}
        for number, chunk in self.chunk_objs_lookup.items():
            self._add(number, chunk)

    def _add(self, number: int, chunk: GulpChunk) -> None:
        items = chunk.meta_dict
        if not isinstance(items, dict):
            raise DirectoryError(
                f"the index is a {type(items).__name__}, not an object of items"
            ).at(path=chunk.meta_file_path, whole=self.output_dir)
        for id_ in items:
            if id_ in self.chunk_lookup:
                first = self.chunk_objs_lookup[self.chunk_lookup[id_]]
                raise DirectoryError(
                    f"Duplicate id detected {id_!r:.80}: {os.fsdecode(first.meta_file_path)} "
                    "has it too"
                ).at(path=chunk.meta_file_path, whole=self.output_dir)
            self.chunk_lookup[id_] = number
            self._owners[id_] = chunk.data_file_path
        self.merged_meta_dict.update(items)
        chunk._owners = self._owners

    def _chunk(self, data_name: str, meta_name: str) -> GulpChunk:
        return GulpChunk(
            os.path.join(self.output_dir, data_name),
            os.path.join(self.output_dir, meta_name),
            jpeg_decoder=self.jpeg_decoder,
        )

    def _repr_html_(self) -> str:
        """Return a table of items for notebooks."""
        with importing:
            from .notebook import gulp_card
        return gulp_card(self)

    def __iter__(self) -> Iterator[GulpChunk]:
        return iter(self.chunk_objs_lookup.values())

    def chunks(self) -> Iterator[GulpChunk]:
        """Return an iterator over the chunks."""
        return iter(self)

    def new_chunks(self, total_new_chunks: int) -> Iterator[GulpChunk]:
        """Return an iterator over new chunks, without creating files yet.

        They are numbered from the highest number in the folder, including files without an index.
        They refuse ids that are in the directory.
        """
        first = list_folder(self.output_dir).next_number
        return (self._new_chunk(number) for number in range(first, first + total_new_chunks))

    def _new_chunk(self, number: int) -> GulpChunk:
        _, data_name, meta_name = chunk_names(number)
        chunk = self._chunk(data_name, meta_name)
        chunk._owners = self._owners
        return chunk

    def __getitem__(self, element: Any) -> tuple[Frames, dict[Any, Any]]:
        """Return the frames and metadata of ``gd[id]`` or ``gd[id, selector]``.

        Selectors and results are those of `GulpChunk.read_frames`.

        Raises
        ------
        NotFoundError
            No item has this id; a KeyError.
        """
        id_, selector = extract_input_for_getitem(element)
        try:
            number = self.chunk_lookup[id_]
        except KeyError:
            raise NotFoundError(f"no item {id_!r:.80}").at(path=self.output_dir) from None
        return self.chunk_objs_lookup[number]._read_item(id_, selector)

    def _load_label_dict(self) -> Any:
        """Return the label numbers, which some adapters write beside the chunks."""
        return read_json(os.path.join(self.output_dir, LABELS_NAME))
