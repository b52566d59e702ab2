"""Messages on the page about troubleshooting are those that the package raises."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp

from .pages import DOCS, blocks

MESSAGES = [
    text.rstrip("\n")
    for language, text, _ in blocks(DOCS / "howto" / "troubleshooting.md")
    if language == "text"
]
ROWS = np.arange(60_000.0).reshape(10_000, 6)


def change(path, position, value):
    content = bytearray(Path(path).read_bytes())
    content[position] = value
    Path(path).write_bytes(content)


def damaged():
    with bp.open("walk.blp") as a:
        position = a.chunk_offset(3) + 100
    change("walk.blp", position, 1)
    bp.load("walk.blp")


def truncated():
    Path("walk.blp").write_bytes(Path("walk.blp").read_bytes()[:6000])
    bp.load("walk.blp")


def later_version():
    change("walk.blp", 4, 9)
    bp.open("walk.blp")


def numpy_file():
    np.save("a.npy", ROWS)
    bp.open("a.npy")


def recording():
    bp.vrs.create("run.vrs").close()
    bp.open("run.vrs")


def two_writers():
    with bp.open("walk.blp", "a"):
        bp.open("walk.blp", "a")


def replaced():
    with bp.open("walk.blp") as a:
        sent = pickle.dumps(a)
    bp.save("walk.blp", ROWS + 1)
    pickle.loads(sent)


def clip_again():
    with bp.frames.open("clips.blp", "a") as store:
        store.append("walk", np.zeros((4, 8, 8), "u1"))


def append(rows, mode="a"):
    with bp.open("walk.blp", mode) as a:
        a.append(rows)


def use(function):
    with bp.open("walk.blp") as a:
        function(a)


def file_object():
    with open("walk.blp", "rb") as file, bp.open(file) as a:
        pickle.dumps(a)


CASES = [
    damaged,
    truncated,
    later_version,
    numpy_file,
    recording,
    lambda: bp.open("clips.blp"),
    lambda: bp.frames.open("walk.blp"),
    two_writers,
    replaced,
    clip_again,
    lambda: bp.frames.create("clips.blp"),
    lambda: bp.save("x.blp", np.array([{}], object)),
    lambda: bp.save("x.blp", ROWS, codec="zst"),
    lambda: bp.save("x.blp", ROWS, attrs={"calibration": {"k": np.datetime64("2026-01-02")}}),
    lambda: use(lambda a: a.__setitem__(0, 1)),
    lambda: append(np.zeros((2, 5))),
    lambda: append(ROWS, "r"),
    lambda: use(lambda a: a[[1, 2], [3, 4]]),
    lambda: use(lambda a: a == 1),
    lambda: bp.open("walk.blp", storage_options={"anon": True}),
    file_object,
]


def test_every_message_has_a_case():
    assert len(MESSAGES) == len(CASES)


@pytest.mark.parametrize(
    ("message", "case"),
    list(zip(MESSAGES, CASES, strict=False)),
    ids=[" ".join(message.split()[:6]) for message in MESSAGES[: len(CASES)]],
)
def test_the_message_is_raised(message, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bp.save("walk.blp", ROWS, chunks=1000)
    with bp.frames.create("clips.blp") as store:
        store.append("walk", np.zeros((4, 8, 8), "u1"))
    with pytest.raises(Exception, match=r"\w") as raised:
        case()
    pattern = ".*".join(map(re.escape, message.split("...")))
    # `a[...]` in a message is not a part that changes.
    assert re.fullmatch(pattern, str(raised.value), re.DOTALL), str(raised.value)
