"""Names, ids, views and splits of datasets, with samples of arbitrary bytes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack import benzina
from bloscpack.benzina import names
from bloscpack.exceptions import FormatError, NotFoundError

from . import vectors
from .datasetfiles import boxes, dataset_bytes, named, patched

TEN = dataset_bytes(
    [bytes([65 + k]) * (k + 1) for k in range(10)],
    [b"%d.png\0" % k for k in range(10)],
    [(k * k).to_bytes(8, "little", signed=True) for k in range(7)],
    {"train": range(6), "val": range(6, 9)},
)
TARGETS = [k * k for k in range(7)] + [-1] * 3


class TestNames:
    @pytest.mark.parametrize(
        ("stored", "name"),
        [
            (b"a.png\0", "a.png"),
            (b"a.png", "a.png"),
            (b"a\0\0", "a\0"),
            (b"\0", ""),
            (b"", ""),
            ("бензина-é漢\0".encode(), "бензина-é漢"),
            (b"caf\xe9.jpg\0", "caf\\xe9.jpg"),
            (b"../../etc/passwd\0", "../../etc/passwd"),
            (b"%s{0}\n\x1b[2J\0", "%s{0}\n\x1b[2J"),
        ],
    )
    def test_any_bytes_are_a_name(self, stored: bytes, name: str) -> None:
        with benzina.open(named(b"first\0", stored)) as dataset:
            assert dataset[1].name == name  # read alone
            assert dataset[1].name_bytes == stored.removesuffix(b"\0")
            assert list(dataset.names) == ["first", name]
            assert dataset[1].name == name  # read with the others
            assert dataset[1].name_bytes == stored.removesuffix(b"\0")
            assert dataset[dataset.keys()[1]].index == 1

    def test_a_name_for_the_first_samples_only(self) -> None:
        with benzina.open(dataset_bytes([b"x"] * 3, [b"a\0"])) as dataset:
            assert dataset[2].name is dataset[2].name_bytes is None
            assert list(dataset.names) == ["a", None, None]
            assert dataset[2].name is dataset[2].name_bytes is None
            assert list(dataset) == ["a", "#1", "#2"]

    def test_as_a_sequence(self) -> None:
        with benzina.open(TEN) as dataset:
            found = dataset.names
            assert len(found) == 10
            assert found[-1] == "9.png"
            assert list(found[2:8:3]) == ["2.png", "5.png"]
            assert found[:2] == ["0.png", "1.png"]
            assert found[:2] == ("0.png", "1.png")
            assert found[:2] != ["0.png"]
            assert found[:2] != ["0.png", "2.png"]
            assert found[:1] != "0"
            assert repr(found[:2]) == "['0.png', '1.png']"
            assert repr(found).endswith("'7.png', ...]")
            assert "3.png" in found
            with pytest.raises(IndexError):
                found[10]


class TestIds:
    @pytest.mark.parametrize(
        ("names", "ids"),
        [
            ([b"a", b"b"], ["a", "b"]),
            ([b"a", b"b", b"a"], ["a#0", "b", "a#2"]),
            ([b"", b"a", b""], ["#0", "a", "#2"]),
            # A name that could be the id of another sample.
            ([b"a", b"a", b"a#1"], ["a#0", "a#1", "a#1#2"]),
            ([b"a#0", b"a"], ["a#0#0", "a"]),
            ([b"#1", b""], ["#1#0", "#1"]),
            ([b"a#0#2", b"a", b"a#0", b"a#0"], ["a#0#2#0", "a", "a#0#2", "a#0#3"]),
            # Two names with the same text.
            ([b"\xff", b"\\xff"], ["\\xff#0", "\\xff#1"]),
            ([b"a#x", b"a#", b"a#01"], ["a#x", "a#", "a#01"]),
        ],
    )
    def test_each_sample_has_one(self, names: list[bytes], ids: list[str]) -> None:
        with benzina.open(named(*names)) as dataset:
            assert list(dataset.keys()) == list(dataset) == ids
            assert [dataset[id_].index for id_ in ids] == list(range(len(ids)))
            assert [dataset[index].id for index in range(len(ids))] == ids
            assert all(id_ in dataset for id_ in ids)

    @given(st.lists(st.sampled_from([b"", b"a", b"a#0", b"a#1", b"a#1#2", b"#0", b"#2", b"b"])))
    def test_each_id_is_of_one_sample(self, names: list[bytes]) -> None:
        with benzina.open(named(*names)) as dataset:
            ids = list(dataset)
            assert len(set(ids)) == len(names)
            assert [dataset[id_].index for id_ in ids] == list(range(len(names)))

    def test_a_name_of_one_sample_finds_it(self) -> None:
        with benzina.open(named(b"a#0", b"a", b"b", b"b")) as dataset:
            assert dataset["a#0"].index == 0
            assert "a#0" in dataset
            for key in ("b", "b#1", "b#02", "#0", "", "c", "b#99999999999999999999"):
                assert key not in dataset
                with pytest.raises(NotFoundError, match="no sample"):
                    dataset[key]
            for other in (None, 0, b"a", ["a"]):
                assert other not in dataset

    def test_names_of_one_hash(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(names, "hash", lambda name: 7, raising=False)
        with benzina.open(named(b"a", b"b", b"a", b"c")) as dataset:
            assert list(dataset) == ["a#0", "b", "a#2", "c"]
            assert [dataset[id_].index for id_ in dataset] == [0, 1, 2, 3]
            assert "d" not in dataset

    def test_unicode(self) -> None:
        with benzina.open(vectors.FOLDER / "mini12.bzna") as dataset:
            assert dataset["бензина-é漢.png"].index == 11
            assert dataset["бензина-é漢.png"].target == 11


class TestViews:
    @pytest.mark.parametrize("selection", [slice(2, 2), slice(0, 0), slice(10, 12)])
    def test_nothing_backwards_is_nothing(self, selection: slice) -> None:
        with benzina.open(TEN) as dataset:
            view = dataset[selection][::-1]
            assert (len(view), view.targets.tolist(), list(view.names)) == (0, [], [])

    @pytest.mark.parametrize(
        "selection",
        [
            slice(None), slice(3, 7), slice(None, None, -1), slice(8, None, -3), slice(2, 2),
            slice(-3, 100), slice(1, 9, 2),
        ],
    )  # fmt: skip
    def test_a_slice_is_a_dataset(self, selection: slice) -> None:
        expected = list(range(10))[selection]
        with benzina.open(TEN) as dataset:
            view = dataset[selection]
            assert isinstance(view, benzina.Dataset)
            assert len(view) == len(expected)
            assert list(view.indices) == expected
            assert [view[k].index for k in range(len(view))] == expected
            assert [sample.index for sample in view.samples()] == expected
            assert [sample.data for sample in view.samples()] == [
                bytes([65 + k]) * (k + 1) for k in expected
            ]
            assert view.targets.tolist() == [TARGETS[k] for k in expected]
            assert list(view.names) == list(view) == [f"{k}.png" for k in expected]
            assert len(view.tracks["bzna_input"]) == 10
            for k in range(10):
                assert (f"{k}.png" in view) == (k in expected)
            outside = sorted(set(range(10)) - set(expected))
            for k in outside[:2]:
                with pytest.raises(NotFoundError):
                    view[f"{k}.png"]
            for wrong in (len(view), -len(view) - 1):
                with pytest.raises(IndexError, match=f"sample {wrong} of a dataset of {len(view)}"):
                    view[wrong]
                with pytest.raises(IndexError, match=f"sample {wrong} of a dataset of {len(view)}"):
                    list(view.samples([wrong]))

    def test_of_views(self) -> None:
        with benzina.open(TEN) as dataset:
            assert list(dataset[2:][::2][-2:].indices) == [6, 8]
            assert dataset[np.int64(3)].index == 3
            with pytest.raises(TypeError):
                dataset[1.5]  # type: ignore[call-overload]

    def test_targets_are_read_only(self) -> None:
        with benzina.open(TEN) as dataset:
            for targets in (dataset.targets, dataset[2:].targets):
                with pytest.raises(ValueError, match="read-only"):
                    targets[0] = 1

    def test_closing(self) -> None:
        dataset = benzina.open(vectors.FOLDER / "base5.bzna")
        with dataset[1:] as view:
            assert view[0].data
        assert view[0].data  # the view uses the dataset's file
        dataset.close()
        dataset.close()
        for each in (dataset, view):
            with pytest.raises(ValueError, match="closed"):
                each[0].data  # noqa: B018 - read here
        # A view keeps the file open even if its dataset is gone.
        assert benzina.open(vectors.FOLDER / "base5.bzna")[2:][0].data


class TestSplits:
    def test_stored(self) -> None:
        with benzina.open(TEN) as dataset:
            assert dataset.splits == {"train": range(6), "val": range(6, 9)}
            assert list(dataset.split("val").names) == ["6.png", "7.png", "8.png"]
            assert dataset.split("train").targets.tolist() == TARGETS[:6]
            # Splits are always those of the whole file.
            assert list(dataset[:2].split("val").indices) == [6, 7, 8]
            with pytest.raises(NotFoundError, match="no split 'test', splits: train, val"):
                dataset.split("test")

    def test_declared_ones_count_instead(self, tmp_path: Path) -> None:
        with benzina.open(TEN, splits={"odd": slice(-1, None)}) as dataset:
            assert dataset.splits == {"odd": range(9, 10)}
            assert dataset.split("odd")[0].name == "9.png"
        with benzina.open(TEN, splits={}) as dataset:
            assert dataset.splits == {}

    def test_undeclared(self) -> None:
        with benzina.open(vectors.FOLDER / "tail8.bzna") as dataset:
            assert dataset.splits == {}
            with pytest.raises(NotFoundError, match=r"no splits.*splits=\{'val': \(0, 8\)"):
                dataset.split("val")

    def test_outside_of_the_file(self) -> None:
        with pytest.raises(ValueError, match="not within 8 samples"):
            benzina.open(vectors.FOLDER / "tail8.bzna", splits={"val": (5, 9)})
        with pytest.raises(ValueError, match="needs 150000 samples"):
            benzina.open(vectors.FOLDER / "tail8.bzna", splits="imagenet")

    def test_damaged_ones_are_an_error_when_asked_for(self) -> None:
        (udta,) = boxes(TEN, b"udta")
        broken = patched(TEN, udta.payload_offset + 8, b"\7")  # a version
        with benzina.open(broken) as dataset:
            assert dataset.targets.tolist() == TARGETS
            with pytest.raises(FormatError, match="version 7"):
                dataset.split("train")

    @pytest.mark.parametrize("content", [b"\0\0\0\0", b"\0", b"\0\0\0\3bzsp", b"\xff" * 12])
    def test_what_others_keep_there(self, content: bytes) -> None:
        (udta,) = boxes(TEN, b"udta")
        (moov,) = boxes(TEN, b"moov")
        kept = (8 + len(content)).to_bytes(4, "big") + b"udta" + content
        data = TEN[: udta.offset] + kept
        data = patched(data, moov.offset, (len(data) - moov.offset).to_bytes(4, "big"))
        with benzina.open(data) as dataset:
            assert dataset.splits == {}
            assert dataset.targets.tolist() == TARGETS


def test_no_samples() -> None:
    with benzina.open(dataset_bytes([], [], [])) as dataset:
        assert len(dataset) == 0
        assert list(dataset) == list(dataset.names) == list(dataset.samples()) == []
        assert dataset.targets.tolist() == []
        with pytest.raises(IndexError, match="sample 0 of a dataset of 0"):
            dataset[0]


def test_what_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "ten.bzna"
    path.write_bytes(TEN)
    with benzina.open(path) as dataset:
        assert repr(dataset) == f"<bloscpack.benzina.Dataset {str(path)!r} of 10 samples>"
        assert repr(dataset[3]) == f"<sample 3 of {str(path)!r}>"
        assert repr(dataset.tracks["bzna_fname"]) == "<track 'bzna_fname' of 10 samples>"
        assert dataset.movie.brands == (b"isom", b"bzna", b"isom")


def test_what_is_not_opened(tmp_path: Path) -> None:
    values: list[Any] = [b"", b"\0" * 8, vectors.data("samples/dot.mp4")]
    for value in values:
        with pytest.raises(FormatError):
            benzina.open(value)
    with pytest.raises(FormatError, match=r"sample of a Benzina dataset.*parse_sample"):
        benzina.open(vectors.data("samples/dot.mp4"))
    with pytest.raises(FileNotFoundError):
        benzina.open(tmp_path / "missing.bzna")
