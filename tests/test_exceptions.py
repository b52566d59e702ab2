"""Exceptions: base classes, messages, pickling."""

import ast
import inspect
import pickle
import re
from pathlib import Path

import pytest

from bloscpack import exceptions
from bloscpack.exceptions import (
    BloscpackError,
    BloscpackWarning,
    ChecksumError,
    ChecksumMismatch,
    CodecError,
    FormatError,
    NotFoundError,
)

from .conftest import PACKAGE

CLASSES = [
    cls
    for name, cls in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(cls, BaseException) and not name.startswith("_")
]
ALL = [cls for cls in CLASSES if not issubclass(cls, Warning)]

# Bases that code for bloscpack 0.16 relies on, and those of our own hierarchy.
BASES: dict[str, tuple[type[BaseException], ...]] = {
    "BloscpackError": (Exception,),
    "FormatError": (BloscpackError, ValueError),
    "IsAFolderError": (exceptions.NotBloscpackError, IsADirectoryError),
    "NotBloscpackError": (FormatError, exceptions.WrongKindError),
    "TruncatedError": (FormatError,),
    "ChecksumError": (FormatError,),
    "CodecError": (BloscpackError,),
    "UnsupportedError": (BloscpackError, NotImplementedError),
    "WrongKindError": (exceptions.UnsupportedError, ValueError),
    "NotFoundError": (BloscpackError, KeyError),
    "LockedError": (BloscpackError, OSError),
    "FileChangedError": (BloscpackError,),
    "RemoteError": (OSError,),
    "WorkerError": (BloscpackError, RuntimeError),
    "FormatVersionMismatch": (exceptions.UnsupportedError, RuntimeError),
    "ChecksumMismatch": (ChecksumError, RuntimeError),
    "FileNotFound": (BloscpackError, OSError),
    "NoSuchChecksum": (BloscpackError, ValueError),
    "NoSuchCodec": (BloscpackError, ValueError),
    "NoSuchSerializer": (BloscpackError, ValueError),
    "ChunkingException": (BloscpackError, BaseException),
    "ChunkSizeTypeSizeMismatch": (BloscpackError, ValueError),
    "ChecksumLengthMismatch": (BloscpackError, RuntimeError),
    "NoMetadataFound": (BloscpackError, RuntimeError),
    "NoChangeInMetadata": (BloscpackError, RuntimeError),
    "MetadataSectionTooSmall": (BloscpackError, RuntimeError),
    "NonUniformTypesize": (BloscpackError, RuntimeError),
    "NotEnoughSpace": (BloscpackError, RuntimeError),
    "NotANumpyArray": (BloscpackError, RuntimeError),
    "ObjectNumpyArrayRejection": (BloscpackError, RuntimeError),
}


def test_table_is_complete() -> None:
    assert sorted(cls.__name__ for cls in ALL) == sorted(BASES)


def test_the_warning_is_not_an_error_of_ours() -> None:
    assert set(CLASSES) - set(ALL) == {BloscpackWarning}
    assert BloscpackWarning.__bases__ == (UserWarning,)


@pytest.mark.parametrize("cls", ALL)
def test_bases(cls: type[BloscpackError]) -> None:
    for base in BASES[cls.__name__]:
        assert issubclass(cls, base)


@pytest.mark.parametrize("cls", ALL)
def test_message_names_the_file_once_it_is_known(cls: type[BloscpackError]) -> None:
    error = cls("chunk 3: bad")
    assert str(error) == "chunk 3: bad"
    error.path = "a.blp"
    assert str(error) == "a.blp: chunk 3: bad"


@pytest.mark.parametrize("cls", ALL)
def test_no_message_is_an_empty_message(cls: type[BloscpackError]) -> None:
    assert str(cls()) == ""


@pytest.mark.parametrize("cls", ALL)
def test_pickle_keeps_everything(cls: type[BloscpackError]) -> None:
    error = cls("bad")
    error.path = "a.blp"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert str(again) == "a.blp: bad"
    assert vars(again) == vars(error)


@pytest.mark.parametrize("cls", ALL)
def test_places_are_added_from_the_inside_out_and_once_each(cls: type[BloscpackError]) -> None:
    error = cls("bad")
    for _ in range(2):
        assert error.at("chunk 2") is error
    error.at("record 3", "a.vrs").at(path="b.vrs")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert type(one) is cls
        assert one.args == ("record 3: chunk 2: bad",)
        assert str(one) == "a.vrs: record 3: chunk 2: bad"


@pytest.mark.parametrize("cls", ALL)
def test_a_place_of_an_error_without_a_message(cls: type[BloscpackError]) -> None:
    assert str(cls().at("chunk 2")) == "chunk 2: "


def fail() -> None:
    raise ChecksumMismatch("bad", name="crc32", index=3, offset=99) from OSError("the cause")


def fail_in_a_chunk() -> None:
    try:
        fail()
    except BloscpackError as err:
        err.at("chunk 3", Path("a.blp"))
        raise


def test_a_place_changes_nothing_but_the_message() -> None:
    with pytest.raises(ChecksumMismatch) as caught:
        fail_in_a_chunk()
    error = caught.value
    assert str(error) == "a.blp: chunk 3: bad"
    assert (error.name, error.index, error.offset) == ("crc32", 3, 99)
    assert str(error.__cause__) == "the cause"
    assert [entry.name for entry in caught.traceback][-2:] == ["fail_in_a_chunk", "fail"]
    again = pickle.loads(pickle.dumps(error))
    assert again.__notes__ == error.__notes__ != []


@pytest.mark.parametrize(
    "cls", [exceptions.LockedError, exceptions.FileNotFound, exceptions.RemoteError]
)
def test_a_place_keeps_the_errno_and_the_filename(cls: type[BloscpackError]) -> None:
    error = cls(11, "busy", "a.blp").at("the journal", "b.blp")
    assert (error.errno, error.filename) == (11, "a.blp")  # type: ignore[attr-defined]
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert one.args == (11, "the journal: busy")
        assert str(one) == "b.blp: the journal: busy"


def test_not_found_is_not_quoted_like_a_key() -> None:
    assert str(NotFoundError("no frame 'x'")) == "no frame 'x'"


def test_attributes() -> None:
    error = FormatError("bad", offset=12, field="nchunks")
    assert (error.offset, error.field) == (12, "nchunks")
    code = CodecError("bad", codec="lz4", code=-1)
    assert (code.codec, code.code) == ("lz4", -1)
    mismatch = ChecksumMismatch(
        "bad", name="crc32", expected=b"\0", actual=b"\1", index=3, offset=99
    )
    again = pickle.loads(pickle.dumps(mismatch))
    for one in (mismatch, again):
        assert (one.name, one.expected, one.actual) == ("crc32", b"\0", b"\1")
        assert (one.index, one.offset, one.field) == (3, 99, None)


# Handlers that change a message instead of adding a place in front of it, and why.
CHANGED_MESSAGES = {
    "benzina/load/batching.py": "a sample's index becomes its index and name",
    "container/front.py": "an error in the front ends in advice",
    "container/logreader.py": "an error in the history ends in advice",
    "container/members.py": "an error in the front or the index ends in advice",
}


NAMES_OF_ERRORS = ("err", "error", "exc", "foreign")


def sets_message_or_path(node: ast.AST) -> bool:
    """Return whether a statement assigns to ``err.args`` or ``error.path``."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(
        isinstance(each, ast.Attribute)
        and each.attr in ("args", "path")
        and isinstance(each.value, ast.Name)
        and each.value.id in NAMES_OF_ERRORS
        for each in targets
    )


def test_places_are_added_by_at_alone() -> None:
    texts = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    found = {
        str(path.relative_to(PACKAGE))
        for path, text in texts.items()
        # Few modules have these words, and parsing takes long.
        if re.search(rf"\b({'|'.join(NAMES_OF_ERRORS)})\.(args|path)\b", text)
        and any(map(sets_message_or_path, ast.walk(ast.parse(text))))
    }
    assert found == {*CHANGED_MESSAGES}
