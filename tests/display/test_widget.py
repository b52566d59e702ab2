"""Widgets of notebooks: messages from the browser, and the pictures that answer them."""

import io
import json
import re
import shutil
import subprocess
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.display import widget
from bloscpack.display.widget import ClipReplies, SliceReplies, answer_of

from .. import browser

RNG = np.random.default_rng(5)
CLIP = RNG.integers(0, 256, (9, 12, 16, 3), "u1")
DEPTH = RNG.integers(0, 5000, (4, 6, 8), "u2")
FIELD = RNG.normal(size=(4, 20, 30)).astype("f4")


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(pytest.importorskip("PIL.Image").open(io.BytesIO(png)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with bp.frames.create(tmp_path / "clips.blp") as writer:
        writer.append("walk", CLIP, {"fps": 50})
        writer.append("depth", DEPTH, {"fps": "fast"})
    with bp.frames.open(tmp_path / "clips.blp") as opened:
        yield opened


@pytest.fixture
def array(tmp_path: Path) -> Iterator[Any]:
    bp.save(tmp_path / "a.blp", FIELD)
    with bp.open(tmp_path / "a.blp") as opened:
        yield opened


def ask(replies: Any, **content: Any) -> tuple[dict[str, Any], list[bytes]]:
    found = answer_of(replies.reply, {"id": 7, **content})
    assert found is not None
    assert found.content["id"] == 7
    return found.content, found.buffers


def ask_slice(array: Any, **content: Any) -> tuple[dict[str, Any], list[bytes]]:
    usual = {"axes": [1, 2], "index": [2, 0, 0], "windows": [[0, 20], [0, 30]]}
    return ask(SliceReplies(array), kind="slice", **{**usual, **content})


def test_a_player_gets_its_frames(store: Any) -> None:
    replies = ClipReplies(store["walk"])
    info, _ = ask(replies, kind="info")
    assert (info["nframes"], info["fps"], info["title"]) == (9, 50, "walk")
    for number in (8, 0, 3):
        content, [png] = ask(replies, kind="frame", frame=number)
        assert content["frame"] == number
        assert np.array_equal(pixels(png), CLIP[number])


def test_values_have_one_range_for_all_frames(store: Any) -> None:
    replies = ClipReplies(store["depth"])
    assert ask(replies, kind="info")[0]["fps"] == 25
    low, high = float(DEPTH.min()), float(DEPTH.max())
    for number in (2, 0):
        _, [png] = ask(replies, kind="frame", frame=number)
        expected = np.rint((DEPTH[number] - low) / (high - low) * 255)
        assert np.array_equal(pixels(png)[..., 0], expected)


@pytest.mark.slow
def test_the_memory_for_a_huge_frame_is_bounded(tmp_path: Path) -> None:
    frame = np.zeros((1, 6000, 8000), "u2")
    frame[0, 3000:] = 500
    with bp.frames.create(tmp_path / "huge.blp") as writer:
        writer.append("huge", frame)
    with bp.frames.open(tmp_path / "huge.blp") as opened:
        replies = ClipReplies(opened["huge"])
        tracemalloc.start()
        try:
            _, [png] = ask(replies, kind="frame", frame=0)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 4 * frame.nbytes
    assert np.array_equal(pixels(png)[[0, -1], 0, 0], [0, 255])


@pytest.mark.parametrize("chunks", [(2, 20, 30), (1, 20, 30), None])
def test_a_viewer_of_several_files(tmp_path: Path, chunks: Any) -> None:
    """A window may reach over files, also where their chunks differ or do not consist of rows."""
    parts = [FIELD[:1], FIELD[1:]]
    for number, part in enumerate(parts):
        if chunks is None:
            bp.pack_ndarray_to_file(part, str(tmp_path / f"{number}.blp"), chunk_size=1000)
        else:
            bp.save(tmp_path / f"{number}.blp", part, chunks=chunks)
    with bp.open_many([tmp_path / "0.blp", tmp_path / "1.blp"]) as many:
        info, _ = ask(SliceReplies(many), kind="info")
        assert (info["shape"], info["axes"]) == ([4, 20, 30], [1, 2])
        whole = {"axes": [0, 2], "index": [0, 7, 0], "windows": [[0, 4], [0, 30]]}
        _, [png] = ask_slice(many, **whole, colormap="gray", limits=[-1, 1])
    expected = np.clip(np.rint((FIELD[:, 7].astype("f8") + 1) / 2 * 255), 0, 255)
    assert np.array_equal(pixels(png)[..., 0], expected)


def test_a_viewer_gets_its_slices(array: Any) -> None:
    info, _ = ask(SliceReplies(array), kind="info")
    assert (info["shape"], info["axes"]) == ([4, 20, 30], [1, 2])
    content, [png] = ask_slice(array, colormap="gray", limits=[-1, 1])
    assert content["range"] == "-1 to 1"
    expected = np.clip(np.rint((FIELD[2].astype("f8") + 1) / 2 * 255), 0, 255)
    assert np.array_equal(pixels(png)[..., 0], expected)
    # Columns before rows, and a part.
    content, [png] = ask_slice(
        array,
        axes=[2, 0],
        index=[0, 5, 0],
        windows=[[10, 14], [1, 4]],
        colormap="gray",
        limits=[-1, 1],
    )
    assert content["windows"] == [(10, 14), (1, 4)]
    part = FIELD[1:4, 5, 10:14].T.astype("f8")
    assert np.array_equal(pixels(png)[..., 0], np.clip(np.rint((part + 1) / 2 * 255), 0, 255))
    # In colours, from the smallest to the largest value.
    assert ask_slice(array)[0]["range"] == f"{FIELD[2].min():.6g} to {FIELD[2].max():.6g}"


def test_a_line_and_colours(tmp_path: Path) -> None:
    bp.save(tmp_path / "line.blp", np.arange(100.0))
    with bp.open(tmp_path / "line.blp") as line:
        content, columns = ask_slice(line, axes=[0], index=[0], windows=[[10, 20]])
    assert content["range"] == "10 to 19"
    for each in columns:  # the smallest and the largest values
        assert np.frombuffer(each, "<f8").tolist() == [*range(10, 20)]
    bp.save(tmp_path / "long.blp", np.arange(3200.0))
    with bp.open(tmp_path / "long.blp") as line:
        _, [low, high] = ask_slice(line, axes=[0], index=[0], windows=[[0, 3200]])
    assert np.frombuffer(low, "<f8").tolist() == [*range(0, 3200, 4)]
    assert np.frombuffer(high, "<f8").tolist() == [*range(3, 3200, 4)]
    bp.save(tmp_path / "rgb.blp", CLIP)
    with bp.open(tmp_path / "rgb.blp") as rgb:
        _, [png] = ask_slice(rgb, index=[3, 0, 0], windows=[[0, 12], [2, 16]])
    assert np.array_equal(pixels(png), CLIP[3, :, 2:])


def test_what_a_message_decodes_is_bounded(array: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widget, "MAX_SIDE", 10)
    assert pixels(ask_slice(array)[1][0]).shape == (10, 10, 3)
    monkeypatch.setattr(widget, "MAX_NBYTES", 1)
    assert "too large to be shown" in ask_slice(array)[0]["error"]


def test_an_empty_window_is_named(array: Any) -> None:
    found, _ = ask_slice(array, windows=[[5, 3], [0, 30]])
    assert found["error"] == "windows: 5 to 3 is empty"


def test_a_window_of_many_chunks_becomes_smaller(tmp_path: Path, monkeypatch: Any) -> None:
    bp.save(tmp_path / "a.blp", FIELD[0], chunks=(5, 30))
    monkeypatch.setattr(widget, "MAX_NBYTES", 5 * 30 * 4 * 2)
    with bp.open(tmp_path / "a.blp") as array:
        content, [png] = ask_slice(array, axes=[0, 1], index=[0, 0], windows=[[0, 20], [0, 30]])
    assert content["windows"] == [(0, 10), (0, 30)]
    assert pixels(png).shape == (10, 30, 3)


@pytest.mark.parametrize(
    "content",
    [
        {"kind": "file"},
        {"kind": ["frame"]},
        {"kind": "frame"},
        *({"kind": "frame", "frame": each} for each in (-1, 9, 1.0, True, "1", None, [0], 1 << 70)),
    ],
    ids=repr,
)
def test_bad_messages_to_a_player(store: Any, content: dict[str, Any]) -> None:
    found, buffers = ask(ClipReplies(store["walk"]), **content)
    assert set(found) == {"id", "error"}
    assert not buffers


@pytest.mark.parametrize(
    "content",
    [
        {"axes": [1, 1]},
        {"axes": [1]},
        {"axes": [1, 3]},
        {"axes": "12"},
        {"axes": [[1], 2]},
        {"index": [4, 0, 0]},
        {"index": [-1, 0, 0]},
        {"index": [0]},
        {"index": {}},
        {"windows": [[0, 21], [0, 30]]},
        {"windows": [[5, 5], [0, 30]]},
        {"windows": [[0, 20, 1], [0, 30]]},
        {"windows": [0, 30]},
        {"windows": None},
        {"limits": [1, 0]},
        {"limits": [0, float("nan")]},
        {"limits": [0, 10**400]},
        {"limits": [0, True]},
        {"limits": "01"},
        {"colormap": "jet"},
        {"colormap": ["gray"]},
        {"kind": "slices"},
    ],
    ids=repr,
)
def test_bad_messages_to_a_viewer(array: Any, content: dict[str, Any]) -> None:
    found, buffers = (
        ask_slice(array, **content)
        if "kind" not in content
        else ask(SliceReplies(array), **content)
    )
    assert set(found) == {"id", "error"}
    assert not buffers


@pytest.mark.parametrize("content", [None, [], "x", {}, {"id": -1}, {"id": "1"}, {"id": 2.5}])
def test_messages_without_a_number_get_no_answer(store: Any, content: Any) -> None:
    assert answer_of(ClipReplies(store["walk"]).reply, content) is None


def test_closed_and_odd_objects_say_what_is_wrong(tmp_path: Path) -> None:
    bp.save(tmp_path / "text.blp", np.array([["a", "b"]]))
    with bp.open(tmp_path / "text.blp") as text:
        replies = SliceReplies(text)
        assert "not numbers" in ask(replies, kind="info")[0]["error"]
    bp.save(tmp_path / "a.blp", FIELD)
    array = bp.open(tmp_path / "a.blp")
    array.close()
    assert "closed" in ask_slice(array)[0]["error"]


def test_a_missing_library_is_named(store: Any, array: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "anywidget", None)
    for make in (store["walk"].player, array.viewer):
        with pytest.raises(ImportError, match=r"bloscpack\[notebook\]") as caught:
            make()
        assert caught.value.name == "anywidget"


class Comm:
    """Line between a widget and the browser, which keeps what is sent."""

    comm_id = "1"
    kernel = None

    def __init__(self) -> None:
        self.sent: list[tuple[Any, Any]] = []

    def send(self, data: Any = None, metadata: Any = None, buffers: Any = None) -> None:
        self.sent.append((data, buffers))

    def close(self, *_: Any) -> None:
        pass


def test_messages_of_a_widget_are_answered(store: Any) -> None:
    pytest.importorskip("anywidget")
    shown = store["walk"].player()
    assert "application/vnd.jupyter.widget-view+json" in shown._repr_mimebundle_()[0]
    # With one, JupyterLab 4 shows an error instead of the widget: its view asks for a description.
    assert shown.tooltip is None
    comm = Comm()
    shown.comm.send = comm.send
    for content in ({"id": 3, "kind": "frame", "frame": 4}, {"no": "number"}):
        shown._handle_msg(
            {"content": {"data": {"method": "custom", "content": content}}, "buffers": []}
        )
    [(data, [png])] = [each for each in comm.sent if each[0].get("method") == "custom"]
    assert data["content"] == {"id": 3, "frame": 4, "type": "image/png"}
    assert np.array_equal(pixels(png), CLIP[4])
    shown.close()


def test_the_script_is_one_module_without_imports(tmp_path: Path) -> None:
    script = widget.script()
    assert "import {" not in script
    folder = Path(widget.__file__).parent
    known: list[str] = []
    for name in (*widget._MODULES, "widget"):
        path = folder / f"{name}.js" if name == "widget" else folder / "page" / f"{name}.js"
        needed = re.findall(r'^import .* from "\./(\w+)\.js";$', path.read_text(), re.MULTILINE)
        assert set(needed) <= set(known), f"{name}.js imports modules that are not before it"
        known.append(name)
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    (tmp_path / "widget.mjs").write_text(script)
    show = (
        f'console.log(Object.keys((await import("{(tmp_path / "widget.mjs").as_uri()}")).default))'
    )
    command = ["node", "--input-type=module", "-e", show]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    assert found.stdout.strip() == "[ 'render' ]"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_replies_are_shown_in_their_order(tmp_path: Path) -> None:
    """A few messages at a time, without those that are stale before they are sent."""
    checks = Path(__file__).with_name("channel.mjs").read_text()
    (tmp_path / "channel.mjs").write_text(widget.script() + checks)
    command = ["node", str(tmp_path / "channel.mjs")]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    result = json.loads(found.stdout)
    assert result["before"] == [0, 1, 2, 3]
    assert result["all"] == [0, 1, 2, 3, 4, 6]
    assert [each for each in result["settled"] if each[0] != 5] == [
        *([0, 0], [1, 10], [2, "Error"], [3, 30], [4, 40], [6, 60]),
    ]
    assert [5, "AbortError"] in result["settled"]
    assert result["listeners"] == 0


PAGE = """
async ({script, name}) => {
  const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const listeners = new Set();
  const model = {
    on: (event, listener) => listeners.add(listener),
    off: (event, listener) => listeners.delete(listener),
    send: async (content) => {
      const [reply, buffers] = await window.answer(name, content);
      const bytes = buffers.map((each) => Uint8Array.from(atob(each), (c) => c.charCodeAt(0)));
      const views = bytes.map((each) => new DataView(each.buffer));
      for (const listener of listeners) listener(reply, views);
    },
  };
  const el = document.createElement("div");
  el.id = name;
  document.body.append(el);
  await module.default.render({ model, el });
}
"""


@pytest.mark.slow
def test_the_browser_draws_what_is_decoded(store: Any, array: Any) -> None:
    """The script of the widgets in Chromium, with a stand-in for the notebook."""
    replies = {"player": ClipReplies(store["walk"]), "viewer": SliceReplies(array)}

    def answer(name: str, content: Any) -> Any:
        found = answer_of(replies[name].reply, content)
        assert found is not None
        return [found.content, [b64encode(each).decode() for each in found.buffers]]

    script = widget.script()
    problems: list[str] = []
    with browser.chromium() as opened:
        page = opened.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.expose_function("answer", answer)
        page.set_content("<!doctype html>")

        def drawn(selector: str) -> np.ndarray:
            return browser.pixels(page, selector)[..., :3]

        page.evaluate(PAGE, {"script": script, "name": "player"})
        page.wait_for_selector("#player canvas[data-drawn='0']")
        assert np.array_equal(drawn("#player canvas"), CLIP[0])
        page.focus("#player .player")
        for key, frame in (("ArrowRight", 1), ("End", 8), ("ArrowLeft", 7), ("Shift+ArrowLeft", 0)):
            page.keyboard.press(key)
            page.wait_for_selector(f"#player canvas[data-drawn='{frame}']")
            assert np.array_equal(drawn("#player canvas"), CLIP[frame])
        page.keyboard.press("Space")
        page.wait_for_selector("#player canvas[data-drawn='3']")
        page.keyboard.press("Space")
        page.fill("#player input[type=range]", "5")
        page.wait_for_selector("#player canvas[data-drawn='5']")
        assert np.array_equal(drawn("#player canvas"), CLIP[5])

        page.evaluate(PAGE, {"script": script, "name": "viewer"})
        page.wait_for_selector("#viewer canvas[data-count='1']")
        page.select_option("#viewer select >> nth=-1", "gray")
        page.wait_for_selector("#viewer canvas[data-count='2']")
        page.fill("#viewer input[placeholder=smallest]", "-1")
        page.fill("#viewer input[placeholder=largest]", "1")
        page.keyboard.press("Tab")
        page.fill("#viewer input[type=range]", "3")
        page.wait_for_function("document.querySelector('#viewer').textContent.includes('[3,')")
        page.wait_for_function("document.querySelector('#viewer').textContent.includes('-1 to 1')")
        expected = np.clip(np.rint((FIELD[3].astype("f8") + 1) / 2 * 255), 0, 255)
        assert np.array_equal(drawn("#viewer canvas")[..., 0], expected)
        page.get_by_label("Down").select_option("0")
        page.wait_for_function("document.querySelector('#viewer').textContent.includes('[0:4,')")
        assert drawn("#viewer canvas").shape[:2] == (4, 30)
    assert not problems
