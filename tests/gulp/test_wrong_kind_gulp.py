"""Errors for a folder that is not a Gulp directory."""

from pathlib import Path

import pytest

import bloscpack as bp
from bloscpack.exceptions import NotBloscpackError

from ..filetypes.test_wrong_kind import folder_with


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "it is empty"),
        (("a.mp4", "b.mp4"), "it holds videos (.mp4); 'blpk frames create"),
        (("x.npy",), "it holds NumPy arrays (.npy)"),
        (("zarr.json",), "a Zarr store: zarr.open reads it"),
        (("data_0.gulp",), "1 .gulp and 0 .gmeta files"),
        (("a.blp", "b.blp"), "Bloscpack files (.blp); name the files"),
        (("notes.odt",), "it holds 'notes.odt'; 'blpk frames create"),
    ],
)
def test_a_folder_that_is_not_a_gulp_directory_is_refused(
    tmp_path: Path, names: tuple[str, ...], words: str
) -> None:
    folder = folder_with(tmp_path / "vids", *names)
    for call in (bp.frames.open, lambda path: bp.convert(path, tmp_path / "out.blp")):
        if "Zarr" in words and call is not bp.frames.open:
            continue  # it is read
        with pytest.raises(NotBloscpackError) as caught:
            call(folder)
        assert str(caught.value).startswith(f"{folder}: a folder without pairs of .gulp and .gmeta")
        assert words in str(caught.value)
    assert not (tmp_path / "out.blp").exists()
