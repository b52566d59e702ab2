import io

import pytest

from bloscpack.parallel.progressbar import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def test_nothing_for_short_work() -> None:
    stream, clock = Terminal(), Clock()
    with ProgressBar(stream, clock=clock) as progress:
        clock.now += 0.9
        progress(10, 20)
    assert stream.getvalue() == ""


def test_appears_after_a_second_and_is_wiped() -> None:
    stream, clock = Terminal(), Clock()
    with ProgressBar(stream, clock=clock) as progress:
        clock.now += 2
        progress(5_000_000, 20_000_000)
        picture = stream.getvalue()
        assert picture.startswith("\r5.0/20.0 MB   25%  2.5 MB/s  [###")
        assert len(picture) == 80
        clock.now += 0.05
        progress(6_000_000, 20_000_000)
        assert stream.getvalue() == picture
        clock.now += 0.1
        progress(7_000_000, 20_000_000)
        assert len(stream.getvalue()) == 160
    assert stream.getvalue()[160:] == "\r" + " " * 79 + "\r"
    assert "\x1b" not in stream.getvalue()


def test_total_not_known() -> None:
    assert ProgressBar.render(3_000_000, -1, 2.0, 79) == "3.0 MB  1.5 MB/s"


@pytest.mark.parametrize("width", range(1, 120, 7))
def test_never_wider_than_the_terminal(width: int) -> None:
    assert len(ProgressBar.render(10**15, 3 * 10**15, 3.0, width)) <= width
    assert len(ProgressBar.render(5, 3, 0.0, width)) <= width


@pytest.mark.parametrize("kind", ["none", "file", "dumb"])
def test_only_on_a_terminal(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = {"none": None, "file": io.StringIO(), "dumb": Terminal()}[kind]
    if kind == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    clock = Clock()
    with ProgressBar(stream, clock=clock) as progress:
        clock.now += 5
        progress(1, 2)
    assert progress.done == 1
    assert stream is None or stream.getvalue() == ""


def test_other_things_than_bytes_are_counted() -> None:
    assert ProgressBar.render(3, 4, 1.0, 14, unit="chunks") == "3/4 chunks   7"
    assert ProgressBar.render(3, 4, 1.0, 40, unit="chunks").startswith("3/4 chunks   75%  [####")
