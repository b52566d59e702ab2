"""Keywords of other libraries: the error names ours."""

import ast
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp

FULL = np.arange(12.0)


def write(path: Path, **options: Any) -> None:
    bp.Writer(path, dtype="f8", **options).close()


def create(path: Path, **options: Any) -> None:
    bp.frames.create(path, **options).close()


def save(path: Path, **options: Any) -> None:
    bp.save(path, FULL, **options)


def savez(path: Path, **options: Any) -> None:
    bp.savez(path, a=FULL, **options)


def parts(path: Path, **options: Any) -> None:
    bp.parts(path, shape=(3,), dtype="f8", **options)


def append(path: Path, **options: Any) -> None:
    with bp.frames.open(path, "a") as store:
        store.append("a", FULL, **options)


def convert(path: Path, **options: Any) -> None:
    bp.convert(path, path.with_name("out"), **options)


def ingest(path: Path, **options: Any) -> None:
    bp.frames.ingest({"a": FULL}, path, **options)


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        (save, {"compression": "gzip"}, r"^save\(\) has no 'compression': use codec='zstd'$"),
        (save, {"attrs": {}, "filters": None}, "'filters': use shuffle='byte'"),
        (save, {"num_threads": 2}, "'num_threads': use nthreads=4"),
        (write, {"compressor": None}, r"^Writer\(\) has no 'compressor': use codec="),
        (create, {"compression": "jpeg"}, r"^create\(\) has no 'compression': use codec="),
        (parts, {"level": 3}, r"^parts\(\) has no 'level': use clevel=5$"),
        (convert, {"chunk_shape": (4, 4)}, "'chunk_shape': use chunks="),
        (ingest, {"num_workers": 2}, "'num_workers': use workers=4"),
        (savez, {"compression": "gzip"}, r"savez\(\) has no 'compression': use codec='zstd'; give"),
        (savez, {"level": 3}, r"use clevel=5; give an array .* \{'level': array\}"),
        (savez, {"keepbits": 5}, r"has no 'keepbits', which save has; .* \{'keepbits': array\}"),
        (savez, {"progress": True}, r"savez\(\) has no 'progress', which save has"),
    ],
)
def test_the_error_names_our_keyword(
    function: Callable[..., None], options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match=text) as caught:
        function(tmp_path / "a.blp", **options)
    assert caught.value.__context__ is None
    assert list(tmp_path.iterdir()) == []


def test_other_mistakes_keep_their_errors(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        save(tmp_path / "a.blp", colour=1)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        bp.save(tmp_path / "a.blp")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'workers'"):
        save(tmp_path / "a.blp", workers=1)  # another name of ours, but not of `save`
    with pytest.raises(TypeError, match="clevel must be an int from 0 to 9, not 'high'"):
        save(tmp_path / "a.blp", clevel="high")  # raised inside, and not by the call


def test_a_record_has_no_other_keywords(tmp_path: Path) -> None:
    create(tmp_path / "a.blp")
    for function in (append, parts, create, ingest, convert):
        with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
            function(tmp_path / "a.blp", colour=1)
    with pytest.raises(TypeError, match=r"append\(\) has no 'compression': use codec="):
        append(tmp_path / "a.blp", compression="jpeg")
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert not store


def test_signatures_list_the_options_of_a_record() -> None:
    found = inspect.signature(bp.frames.create).parameters
    assert [found[name].default for name in ("codec", "quality", "crf")] == ["lossless", 90, 18]
    assert all(each.kind is not each.VAR_KEYWORD for each in found.values())
    found = inspect.signature(bp.Writer).parameters
    assert (found["codec"].default, found["checksum"].default) == ("zstd", "crc32")
    assert found["chunks"].annotation == int | tuple[int, ...] | str | None


def test_arrays_may_have_these_names(tmp_path: Path) -> None:
    bp.savez(tmp_path / "a.blp", {"compression": 3}, level=FULL)
    with bp.open(tmp_path / "a.blp") as archive:
        assert list(archive) == ["compression", "level"]


def test_functions_stay_what_they_are() -> None:
    for function in (bp.save, bp.convert, bp.frames.create, bp.frames.ingest):
        assert pickle.loads(pickle.dumps(function)) is function


def test_functions_have_few_parameters() -> None:
    """Longer lists are records; loaders have the parameters of torch's, and the engine xarray's."""
    package = Path(bp.__file__).parent
    long = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.arguments) and len(node.args) + len(node.kwonlyargs) > 12
    }
    loaders = {"benzina/load/loader.py", "benzina/load/torchloader.py"}
    assert long <= {*loaders, "integrations/xarray.py"}
