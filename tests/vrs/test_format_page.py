"""Format page: the dump equals the example, and its reader reads the vectors."""

import hashlib
import re
from typing import Any

import pytest

from bloscpack.vrs.block.audio import AudioFormat, SampleFormat
from bloscpack.vrs.block.pixels import PixelFormat
from bloscpack.vrs.format.compression import PRESETS
from bloscpack.vrs.layout.datalayout import DataLayout

from ..pages import DOCS, blocks, dump_of, page_fixture
from .test_block_vectors import listed
from .vectorfiles import NAMES, VectorFile

PAGE = DOCS / "formats" / "vrs.md"

page = page_fixture(PAGE)


def test_hex_dump_is_the_example(page: dict[str, Any]) -> None:
    assert dump_of(PAGE).hex(" ") == page["example"].hex(" ")


def test_definition_in_the_text_is_one() -> None:
    (text,) = [text for language, text, _ in blocks(PAGE) if language == "json"]
    assert DataLayout.from_json(text).to_json() == text.strip()


def section(title: str) -> str:
    return PAGE.read_text("utf-8").partition(f"# {title}\n")[2].partition("\n#")[0]


def test_names_and_numbers_of_the_tables() -> None:
    pixels = {(int(n), name) for n, name in re.findall(r"(\d+) `(\w+)`", section("Pixels"))}
    assert pixels == {(int(pixel), str(pixel)) for pixel in PixelFormat if pixel}
    samples = re.findall(r"(\d+) `(\w+)`", section("Samples"))
    named = {(int(n), name) for n, name in samples}
    assert named == {
        *((int(sample), str(sample)) for sample in SampleFormat if sample),
        *((int(audio), str(audio)) for audio in AudioFormat if audio),
    }
    presets = set(re.findall(r"`(\w+)`", section("Compression")))
    assert presets == set(PRESETS) - {"none"}


# Not supported by the short reader: chunks, version 1, tags records, tags that are not UTF-8,
# legacy ids.
LEFT_OUT = ("chunk", "split", "legacy", "late", "enc_tags", "enc_ids")
SIMPLE = [name for name in NAMES if not any(word in name for word in LEFT_OUT)]
each_file = pytest.mark.parametrize("name", SIMPLE)


@each_file
def test_reader_of_the_page_reads_vectors(name: str, page: dict[str, Any]) -> None:
    file = VectorFile(name)
    types = {1: "state", 2: "configuration", 3: "data"}
    found = []
    for type_id, instance_id, kind, version, time, payload in page["read_records"](file.data):
        if type_id == 2:
            file_tags, streams = page["read_description"](payload)
        elif kind in types:
            digest = hashlib.sha256(payload).hexdigest()
            found.append((f"{type_id}-{instance_id}", types[kind], version, repr(time), digest))
    assert file_tags == file.manifest["file_tags"]
    assert {f"{t}-{i}" for t, i in streams} <= set(file.manifest["streams"])
    listed = {
        (r["stream_id"], r["type"], r["format_version"], time_of(r), r["payload_sha256"])
        for r in file.manifest["records"]
        if r["compression"] != "lz4"
    }
    assert listed <= set(found)
    assert len(found) == file.manifest["n_records"]


def time_of(record: dict[str, Any]) -> str:
    time = record["timestamp"]
    return str(time["$f"]) if isinstance(time, dict) else repr(float(time))


@each_file
def test_reader_of_the_page_decodes_metadata(name: str, page: dict[str, Any]) -> None:
    blocks = [block for _, record in listed(name) for block in record.blocks]
    for block in blocks:
        if block.kind != "metadata":
            continue
        assert isinstance(block.spec, DataLayout)
        try:
            values, nbytes = page["decode_metadata"](block.spec.to_json(), bytes(block.data))
        except UnicodeDecodeError:
            assert name == "enc_layout_edges"
            continue
        assert nbytes == block.nbytes
        expected = block.values()
        # The reader of the page has no keys for labels that are used twice.
        for label in values.keys() & expected.keys():
            assert flat(values[label]) == flat(expected[label])
        assert values.keys() == expected.keys() or name == "enc_labels"


def flat(value: Any) -> str:
    """Return a text in which NaN equals itself and matrices are flat."""
    if isinstance(value, dict):
        return repr({key: flat(value[key]) for key in sorted(value)})
    text = repr(value)
    return text.replace("(", "").replace(")", "").replace("[", "").replace("]", "").replace(" ", "")
