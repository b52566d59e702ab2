"""Gulp directories: file names, lookups, new chunks, ids."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.exceptions import FormatError, NotFoundError
from bloscpack.gulp import ChunkWriter, GulpChunk, GulpDirectory
from bloscpack.gulp.clipsource import GulpSource
from bloscpack.gulp.gulperrors import DuplicateIdException

from ..conftest import Warned
from .conftest import frames, write


def test_directory_attributes(folder: Path) -> None:
    directory = GulpDirectory(folder)
    assert directory.output_dir is folder
    assert directory.num_chunks == 2
    assert directory.chunk_lookup == {"a": 0, "b": 0, "c": 1}
    assert list(directory.merged_meta_dict) == ["a", "b", "c"]
    assert type(directory.merged_meta_dict) is dict
    assert [list(index) for index in directory.all_meta_dicts] == [["a", "b"], ["c"]]
    assert list(directory.chunks()) == list(directory) == [*directory.chunk_objs_lookup.values()]
    assert [meta["name"] for chunk in directory for _, meta in chunk] == ["a", "b", "c"]


def test_looking_up(folder: Path) -> None:
    directory = GulpDirectory(str(folder))
    found, meta = directory["b"]
    assert [frame.shape for frame in found] == [(9, 7)] * 3
    assert meta == {"name": "b"}
    picked, _ = directory["b", [2, 0]]
    np.testing.assert_array_equal(picked, [found[2], found[0]])


@pytest.mark.parametrize("unknown", ["x", 3, ("x", [0])])
def test_an_unknown_id(folder: Path, unknown: Any) -> None:
    with pytest.raises(KeyError, match="no item") as caught:
        GulpDirectory(folder)[unknown]
    assert isinstance(caught.value, NotFoundError)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("element", [np.int64(1), b"a", 1.5, None, ("a", 1, 2)])
def test_invalid_directory_ids(folder: Path, element: Any) -> None:
    with pytest.raises(TypeError, match="Undefined input type"):
        GulpDirectory(folder)[element]


def test_integer_ids(tmp_path: Path) -> None:
    write(tmp_path, 0, {"7": frames(1, 8, 8)})
    assert GulpDirectory(tmp_path)[7][1] == {"name": "7"}
    assert GulpDirectory(tmp_path)[np.int64(7), None][1] == {"name": "7"}


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    directory = GulpDirectory(tmp_path / "no")
    assert (directory.num_chunks, directory.merged_meta_dict) == (0, {})
    assert os.path.basename(next(directory.new_chunks(1)).data_file_path) == "data_0.gulp"


@pytest.mark.parametrize("name", ["[0-9]", "a*", "what?", "ü \udcff", "{}%s"])
def test_names_of_folders_are_taken_literally(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir()
    write(path, 0, {"a": frames(2, 8, 8)})
    directory = GulpDirectory(path)
    assert len(directory["a"][0]) == 2
    assert os.path.basename(next(directory.new_chunks(1)).data_file_path) == "data_1.gulp"
    assert len(GulpSource(path)["a"]) == 2


def test_data_without_an_index_are_left_out_with_a_notice(folder: Path, warned: Warned) -> None:
    (folder / "data_7.gulp").write_bytes(b"half a chunk")
    directory = GulpDirectory(folder)
    assert "data_7.gulp" in warned.text
    assert list(directory.chunk_lookup) == ["a", "b", "c"]
    # A new chunk does not overwrite the orphan.
    assert os.path.basename(next(directory.new_chunks(1)).data_file_path) == "data_8.gulp"


def test_new_chunks_follow_the_highest(folder: Path) -> None:
    write(folder, 11, {"d": []})
    new = list(GulpDirectory(folder).new_chunks(3))
    assert [os.path.basename(chunk.data_file_path) for chunk in new] == [
        "data_12.gulp",
        "data_13.gulp",
        "data_14.gulp",
    ]
    assert os.path.basename(new[0].meta_file_path) == "meta_12.gmeta"


@pytest.mark.parametrize("opened", [GulpDirectory, GulpSource])
def test_an_id_in_two_chunks(folder: Path, opened: Any) -> None:
    # Also the last item of one chunk and the first of the next.
    write(folder, 2, {"c": []})
    with pytest.raises(AssertionError, match="Duplicate id detected 'c'") as caught:
        opened(folder)
    assert isinstance(caught.value, FormatError)
    assert "meta_1.gmeta" in str(caught.value)
    assert "meta_2.gmeta" in str(caught.value)


@pytest.mark.parametrize("opened", [GulpDirectory, GulpSource])
@pytest.mark.parametrize("name", ["data_00.gulp", "meta_3.gmeta", "data.gulp"])
def test_files_that_do_not_fit_together(folder: Path, opened: Any, name: str) -> None:
    (folder / name).write_bytes(b"{}")
    with pytest.raises(AssertionError, match=name) as caught:
        opened(folder)
    assert str(caught.value).startswith(f"{folder}: ")


@pytest.mark.parametrize("opened", [GulpDirectory, GulpSource])
@pytest.mark.parametrize("text", ["", "[]", "{", "\ud800", '{"a": {}, "a": {}}', "[" * 99999])
def test_a_damaged_index_is_named(folder: Path, opened: Any, text: str) -> None:
    (folder / "meta_1.gmeta").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(FormatError, match=r"meta_1\.gmeta: "):
        opened(folder)


def test_an_id_that_is_there_is_not_written(folder: Path) -> None:
    directory = GulpDirectory(folder)
    first, second = directory.new_chunks(2)
    with first.open("wb"):
        with pytest.raises(DuplicateIdException, match=r"data_0\.gulp has an item 'a' already"):
            first.append("a", {}, frames(1, 8, 8))
        first.append(4, {}, frames(1, 8, 8))
    with second.open("wb"):
        with pytest.raises(ValueError, match=r"data_2\.gulp has an item '4'"):
            second.append("4", {}, frames(1, 8, 8))
        second.append("e", {}, frames(1, 8, 8))
    with directory.chunk_objs_lookup[0].open("ab"), pytest.raises(DuplicateIdException):
        directory.chunk_objs_lookup[0].append("c", {}, [])
    assert list(GulpDirectory(folder).chunk_lookup) == ["a", "b", "c", "4", "e"]


def test_an_id_whose_frames_were_refused_is_free(folder: Path) -> None:
    first, second = GulpDirectory(folder).new_chunks(2)
    with first.open("wb"):
        first.append("d", {}, frames(1, 8, 8))
        for id_ in ("d", "e"):
            with pytest.raises(ValueError, match="JPEG stores"):
                first.append(id_, {}, [np.zeros((8, 8, 5), np.uint8)])
    with second.open("wb"):
        with pytest.raises(DuplicateIdException):
            second.append("d", {}, frames(1, 8, 8))
        second.append("e", {}, frames(1, 8, 8))
    assert list(GulpDirectory(folder).chunk_lookup) == ["a", "b", "c", "d", "e"]


class Broken:
    """An adapter whose second item is not a dict."""

    def iter_data(self, _: slice) -> Any:
        yield {"id": "d", "meta": {}, "frames": frames(1, 8, 8)}
        yield None


def test_an_id_is_free_again_after_an_error_or_overwriting(folder: Path) -> None:
    directory = GulpDirectory(folder)
    first, second = directory.new_chunks(2)
    with pytest.raises(TypeError):
        ChunkWriter(Broken()).write_chunk(first, slice(2))
    with directory.chunk_objs_lookup[0].open("wb"):
        pass
    with second.open("wb"):
        second.append("d", {}, [])
        second.append("a", {}, [])
    assert list(GulpDirectory(folder).chunk_lookup) == ["c", "d", "a"]


def test_labels(folder: Path) -> None:
    (folder / "label2idx.json").write_text(json.dumps({"x": 0}))
    assert GulpDirectory(folder)._load_label_dict() == {"x": 0}


def test_decoders_of_the_caller(folder: Path) -> None:
    directory = GulpDirectory(folder, jpeg_decoder=len)
    assert directory["a"][0] == [
        length - pad for _, pad, length in directory.merged_meta_dict["a"]["frame_info"]
    ]


def test_a_directory_pickles(folder: Path) -> None:
    copy = pickle.loads(pickle.dumps(GulpDirectory(folder)))
    assert len(copy["a"][0]) == 5


def test_a_directory_is_made_of_an_empty_folder(tmp_path: Path) -> None:
    directory = GulpDirectory(tmp_path)
    assert directory.num_chunks == 0
    assert len(list(directory.new_chunks(2))) == 2


def test_one_text_is_not_a_list_of_its_letters(tmp_path: Path) -> None:
    chunk = GulpChunk(tmp_path / "data_0.gulp", tmp_path / "meta_0.gmeta")
    with (
        chunk.open("wb"),
        pytest.raises(TypeError, match=r"accepted_ids is a list, not a single str: \['ab'"),
    ):
        list(chunk.iter_all(accepted_ids="ab"))
