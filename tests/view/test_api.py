"""Sources of the views in the browser: the server, and the static page's own modules."""

import json
import re
import subprocess
from typing import Any

import pytest

from bloscpack.view.clips import FRAME_HEADER
from bloscpack.view.export import page_files
from tests.staticview.test_readers import pytestmark  # noqa: F401  (needs node)

FRAMES = [(4, 3, 5, 2, bytes(range(30))), (5, 0, 0, 0, b"damaged"), (6, 1, 2, 1, b"ab")]
STREAM = b"".join(
    FRAME_HEADER.pack(index, channels, width, height, len(data)) + data
    for index, channels, width, height, data in FRAMES
)
SCRIPT = """
Object.assign(globalThis, { location: new URL("http://localhost/"), sessionStorage: { getItem: () => "token" } });
const { framesOf } = await import(process.argv[1]);
const { stream, size } = JSON.parse(process.argv[2]);
globalThis.fetch = async () => new Response(new ReadableStream({
  start(controller) {
    for (let at = 0; at < stream.length; at += size) controller.enqueue(Uint8Array.from(stream.slice(at, at + size)));
    controller.close();
  },
}));
const found = [];
try {
  for await (const frame of framesOf(0)({ clip: 0, start: 4 })) found.push({ ...frame, data: [...(frame.data ?? [])] });
} catch (error) {
  found.push({ failed: error.message });
}
console.log(JSON.stringify(found));
"""  # noqa: E501


def frames_of(stream: bytes, size: int) -> list[dict[str, Any]]:
    """Return the frames that the page finds in a stream that comes in blocks of a size."""
    task = json.dumps({"stream": list(stream), "size": size})
    command = ["node", "--input-type=module", "-e", SCRIPT, page_files()["api.js"].as_uri(), task]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    frames: list[dict[str, Any]] = json.loads(found.stdout)
    return frames


@pytest.mark.parametrize("size", [1, 7, 20, 50, 1000])
def test_frames_are_found_in_any_blocks(size: int) -> None:
    first, damaged, last = frames_of(STREAM, size)
    assert first == {"index": 4, "channels": 3, "width": 5, "height": 2, "data": [*range(30)]}
    assert (damaged["index"], damaged["error"]) == (5, "damaged")
    assert (last["index"], last["channels"], bytes(last["data"])) == (6, 1, b"ab")


@pytest.mark.parametrize("left", [1, 2, 10, 21])
def test_a_stream_that_ends_within_a_frame_is_an_error(left: int) -> None:
    *whole, failed = frames_of(STREAM[:-left], 16)
    assert [each["index"] for each in whole] == [4, 5]
    assert failed == {"failed": "the server ended within a frame"}


def test_both_sources_of_the_views_have_the_same_functions() -> None:
    exports = [
        set(re.findall(r"^export .*?(?:function\*? |const )(\w+)", path.read_text(), re.MULTILINE))
        for path in (page_files()["api.js"], page_files()["static/api.js"])
    ]
    assert exports[0] == exports[1] == {"getJson", "getPacket", "framesOf", "postLines"}
