"""Draw the figures of the documentation: ``python .ci/figures.py`` writes docs/figures/*.svg.

Boxes have a fill of their own with dark text. All other text and lines are of a grey that is
readable on white and on black, so that a figure suits light and dark pages.
"""

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "figures"
WIDTH = 880
HEIGHT = 34
INK = "#78818c"
FILLS = {
    "head": "#a9c4e4",  # headers and metadata
    "table": "#f3cf74",  # tables and indexes
    "data": "#7fcfc4",  # compressed data
    "sum": "#d3b4e6",  # digests
    "free": "#d9dee4",  # spare, padding, everything else
}
# A part of a file: its text, its share of the width, its fill.
Part = tuple[str, float, str]
Place = tuple[float, float, float, float]


class Figure:
    """Elements of an SVG file."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.elements: list[str] = []
        self.bottom = 0.0

    def text(self, x: float, y: float, text: str, style: str = "", fill: str = INK) -> None:
        """Write text with its middle at x and its baseline at y."""
        anchor = "" if "text-anchor" in style else ' text-anchor="middle"'
        self.elements.append(
            f'<text x="{x:g}" y="{y:g}" fill="{fill}"{anchor}{style}>{escape(text)}</text>'
        )
        self.bottom = max(self.bottom, y + 6)

    def note(self, x: float, y: float, text: str) -> None:
        """Write text that starts at x."""
        self.text(x, y, text, ' text-anchor="start" font-size="12"')

    def box(self, place: Place, text: str, kind: str) -> None:
        """Draw a box with one or two lines of text."""
        x, y, width, height = place
        self.elements.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" '
            f'fill="{FILLS[kind]}" stroke="#5b6570" stroke-width="0.6"/>'
        )
        lines = text.split("\n")
        for number, line in enumerate(lines):
            at = y + height / 2 + 4.5 + 14 * (number - (len(lines) - 1) / 2)
            self.text(x + width / 2, at, line, fill="#17202a")
        self.bottom = max(self.bottom, y + height)

    def row(
        self, y: float, parts: Sequence[Part], x: float = 0, width: float = WIDTH,
        height: float = HEIGHT,
    ) -> list[Place]:  # fmt: skip
        """Draw parts side by side over a width, and return their places."""
        unit = width / sum(share for _, share, _ in parts)
        places = []
        for text, share, kind in parts:
            places.append((x, y, share * unit, height))
            self.box(places[-1], text, kind)
            x += share * unit
        return places

    def zoom(self, small: Place, large: Sequence[Place]) -> None:
        """Show that a row is a part of the row above, enlarged."""
        x, y, width, height = small
        left, top = large[0][:2]
        right = large[-1][0] + large[-1][2]
        points = [(x, y + height), (x + width, y + height), (right, top), (left, top)]
        path = " ".join(f"{a:g},{b:g}" for a, b in points)
        self.elements.append(f'<polygon points="{path}" fill="{INK}" fill-opacity="0.18"/>')

    def arrow(self, start: tuple[float, float], end: tuple[float, float], rise: float = 0) -> None:
        """Draw an arrow, curved upwards by `rise`."""
        (a, b), (c, d) = start, end
        self.elements.append(
            f'<path d="M{a:g},{b:g} C{a:g},{b - rise:g} {c:g},{d - rise:g} {c:g},{d:g}" '
            f'fill="none" stroke="{INK}" stroke-width="1.4" marker-end="url(#tip)"/>'
        )

    def svg(self) -> str:
        """Return the file."""
        height = self.bottom + 4
        body = "\n".join(self.elements)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-2 -2 {WIDTH + 4} {height + 2:g}" '
            f'width="{WIDTH + 4}" font-family="system-ui, sans-serif" font-size="12.5">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker>'
            f"</defs>\n{body}\n</svg>\n"
        )


def top(place: Place) -> tuple[float, float]:
    """Return the middle of the upper edge."""
    return place[0] + place[2] / 2, place[1]


def foot(place: Place) -> tuple[float, float]:
    """Return the middle of the lower edge."""
    return place[0] + place[2] / 2, place[1] + place[3]


def layers() -> Figure:
    """Draw the folders of the package."""
    figure = Figure("Layers of the package: each imports from those below it")
    rows = [
        ("what users call", [("cli", 1), ("integrations", 1), ("filetypes", 1), ("original", 1)]),
        ("datasets", [("vrs", 1), ("benzina", 1), ("gulp", 1), ("frames", 1)]),
        ("content of one file", [("media", 1), ("damage", 1), ("array", 1)]),
        ("chunks of one file", [("container", 1)]),
        ("where bytes are", [("storage/remote", 1), ("storage", 2)]),
        ("bytes to values, cores", [("format", 1), ("parallel", 1), ("_ext: kernels", 1)]),
    ]
    kinds = ("table", "data", "data", "head", "head", "sum")
    for number, ((label, folders), kind) in enumerate(zip(rows, kinds, strict=True)):
        y = 46.0 * number
        figure.row(y, [(name, share, kind) for name, share in folders], 200, 680, 36)
        figure.text(190, y + 22, label, ' text-anchor="end"')
    return figure


def concepts() -> Figure:
    """Draw the way from an array to a file."""
    figure = Figure("From an array to a file: rows, chunks, blocks")
    figure.text(90, 14, "array")
    for number in range(8):
        figure.box((30, 22 + 18.0 * number, 120, 18), "row" if number in (0, 7) else "", "free")
    figure.text(330, 14, "chunks of rows")
    chunks = [(260.0, 22 + 48.0 * n, 140.0, 44.0) for n in range(3)]
    for number, place in enumerate(chunks):
        figure.box(place, f"chunk {number}", "data")
        figure.arrow((152, 40 + 48.0 * number), (256, 44 + 48.0 * number))
    figure.text(600, 14, "blocks of a chunk, each compressed alone")
    figure.row(70, [(f"block {n}", 1, "data") for n in range(4)], 470, 400, 44)
    figure.arrow((404, 92), (466, 92))
    figure.note(470, 140, "A small read decodes these alone; the checksum is of the chunk.")
    parts = [
        ("header", 1, "head"), ("metadata:\ndtype, shape, attrs", 2, "head"),
        ("offset table", 1.4, "table"), ("chunk 0", 1.6, "data"), ("digest", 0.8, "sum"),
        ("chunk 1", 1.6, "data"), ("digest", 0.8, "sum"), ("chunk 2", 1.6, "data"),
        ("digest", 0.8, "sum"), ("trailer", 1, "sum"),
    ]  # fmt: skip
    places = figure.row(218, parts, height=42)
    for number in range(3):
        figure.arrow(top(places[2]), top(places[3 + 2 * number]), 16 + 8 * number)
    figure.note(
        0,
        282,
        "The file. Opening reads header and metadata; the offset table is read as it is needed.",
    )
    return figure


def bloscpack() -> Figure:
    """Draw a Bloscpack file."""
    figure = Figure("A Bloscpack file")
    parts = [
        ("header\n32 or 64", 1.2, "head"), ("metadata\n32 + data + digest", 2.2, "head"),
        ("offsets\n8 each", 1.3, "table"), ("chunk 0", 1.7, "data"), ("digest", 0.9, "sum"),
        ("chunk 1", 1.7, "data"), ("digest", 0.9, "sum"), ("...", 0.6, "free"),
        ("trailer", 1.5, "sum"),
    ]  # fmt: skip
    file = figure.row(40, parts, height=42)
    figure.arrow(top(file[2]), top(file[3]), 22)
    figure.arrow(top(file[2]), top(file[5]), 34)
    figure.zoom(file[8], [(440, 200, 440, 42)])
    table = figure.row(
        120, [("0", 1, "table"), ("1", 1, "table"), ("...", 1, "table"), ("spare", 1.6, "free")],
        0, 250, 42,
    )  # fmt: skip
    figure.zoom(file[2], table)
    chunk = figure.row(
        120, [("Blosc header\n16", 1.7, "head"), ("starts\n4 each", 1.1, "table"),
              ("block 0", 1.2, "data"), ("block 1", 1.2, "data"), ("...", 0.7, "data")], 270, 400, 42,
    )  # fmt: skip
    figure.zoom(file[3], chunk)
    figure.row(
        200, [("digests of chunks\n8 each", 2, "sum"), ("pages\n16 each", 1.2, "sum"),
              ("copy of\nthe front", 1.2, "head"), ("tail\n64", 0.8, "head")], 440, 440, 42,
    )  # fmt: skip
    figure.note(
        0, 266, "Numbers are bytes. The trailer is optional; without it the chunks end the file."
    )
    return figure


def archive() -> Figure:
    """Draw an archive of named arrays."""
    figure = Figure("An archive of named arrays")
    parts = [
        ("header\n64", 0.8, "head"), ("metadata:\nattrs", 1, "head"),
        ("record\ntemperature", 1.2, "table"), ("a whole Bloscpack file", 2.4, "data"),
        ("record:\nnames, sizes", 1.2, "table"), ("a chunk of\nsmall files", 1.2, "data"),
        ("records", 1, "table"), ("tail\n40", 0.6, "head"),
    ]  # fmt: skip
    file = figure.row(44, parts, height=42)
    figure.arrow(top(file[6]), top(file[2]), 48)
    figure.arrow(top(file[6]), top(file[4]), 24)
    figure.note(
        0, 108, "A reader starts at the end. Many small files in a row are one chunk, a bundle."
    )
    return figure


def blosc_chunk() -> Figure:
    """Draw a Blosc-1 chunk."""
    figure = Figure("A Blosc-1 chunk of items of four bytes")
    parts = [
        ("header\n16", 1, "head"), ("block starts\n4 each", 1.5, "table"),
        ("block 0", 2, "data"), ("block 1", 2, "data"), ("...", 0.8, "data"),
        ("last block,\nnot split", 1.4, "data"),
    ]  # fmt: skip
    chunk = figure.row(24, parts, height=42)
    figure.arrow(top(chunk[1]), top(chunk[2]), 12)
    figure.arrow(top(chunk[1]), top(chunk[3]), 22)
    streams: list[Part] = []
    for name in ("first bytes", "second bytes", "third bytes", "fourth bytes"):
        streams += [("length\n4", 0.7, "head"), (f"{name}\nof all items", 1.5, "data")]
    block = figure.row(106, streams, height=42)
    figure.zoom(chunk[2], block)
    figure.note(
        0,
        170,
        "A split block has one stream for each byte of an item, here 4, each compressed alone.",
    )
    return figure


def array_chunk() -> Figure:
    """Draw an array chunk."""
    figure = Figure("An array chunk")
    parts = [
        ("header\n16", 1, "head"), ("plan", 1.6, "head"), ("ends of blocks\n4 each", 1.6, "table"),
        ("dictionaries", 1.3, "table"), ("block 0", 1.6, "data"), ("block 1", 1.6, "data"),
        ("...", 0.7, "data"),
    ]  # fmt: skip
    chunk = figure.row(24, parts, height=42)
    figure.arrow(top(chunk[2]), top(chunk[4]), 12)
    figure.arrow(top(chunk[2]), top(chunk[5]), 22)
    plan = figure.row(
        106, [("geometry\n32", 1, "head"), ("plane 0: map, predictor,\ncoder", 1.9, "head"),
              ("plane 1: ...", 1, "head")], 0, 440, 42,
    )  # fmt: skip
    figure.zoom(chunk[1], plan)
    block = figure.row(
        106, [("plane 0:\nexceptions", 1, "table"), ("residuals", 1.3, "data"),
              ("plane 1:\nexceptions", 1, "table"), ("residuals", 1.3, "data")], 470, 410, 42,
    )  # fmt: skip
    figure.zoom(chunk[4], block)
    figure.note(
        0,
        170,
        "A plane is a channel of an image or a column of a table. With the head, a block is decoded alone.",
    )
    return figure


def frame_store() -> Figure:
    """Draw a frame store: chunks, segments and their chain."""
    figure = Figure("A frame store, and the chain of its index segments")
    parts = [
        ("header\n64", 0.8, "head"), ("metadata", 1, "head"),
        ("clip A:\nchunks", 1.3, "data"), ("segment\nA", 0.9, "table"),
        ("clip B:\nchunks", 1.6, "data"), ("segment\nB", 0.9, "table"),
        ("merged\nA, B", 1, "table"), ("clip C:\nchunks", 1.3, "data"), ("segment\nC", 0.9, "table"),
    ]  # fmt: skip
    file = figure.row(58, parts, height=42)
    figure.arrow(top(file[8]), top(file[6]), 30)
    figure.text((file[6][0] + file[8][0] + file[8][2]) / 2, 26, "previous")
    figure.arrow((872, 6), (872, 56))
    figure.text(864, 12, "a reader starts here", ' text-anchor="end"')
    chunks = figure.row(
        140, [("frame 0", 1.2, "data"), ("digest\n8", 0.7, "sum"), ("frame 1", 1.2, "data"),
              ("digest\n8", 0.7, "sum"), ("...", 0.5, "data")], 0, 380, 42,
    )  # fmt: skip
    figure.zoom(file[2], chunks)
    segment = figure.row(
        140, [("clips: offsets, ids,\nhashes, formats", 2, "table"),
              ("chunks: sizes,\nfilters", 1.3, "table"), ("metas:\nJSON", 0.9, "table"),
              ("tail\n152", 0.7, "head")], 420, 460, 42,
    )  # fmt: skip
    figure.zoom(file[8], segment)
    figure.note(
        0,
        204,
        "Segments A and B are still in the file, but the merged one replaces them. The file only grows.",
    )
    return figure


def frame_references() -> Figure:
    """Draw which frames are subtracted from which."""
    figure = Figure("References of the frames of a group of eight")
    for number, (label, rule) in enumerate(
        (("TIME", (0, 0, 0, 2, 0, 4, 4, 6)), ("TIME and STRIDED", (0, 0, 0, 1, 0, 1, 4, 5)))
    ):
        y = 66 + 118.0 * number
        places = figure.row(y, [(str(k), 1, "data") for k in range(8)], 160, 720)
        figure.text(150, y + 22, label, ' text-anchor="end"')
        for k in range(1, 8):
            start, end = top(places[k]), top(places[rule[k]])
            figure.arrow(
                (start[0] - 6, y), (end[0] + 6 * (k - rule[k]) / 7, y), 14 + 9 * (k - rule[k])
            )
    figure.note(
        0,
        244,
        "An arrow leads to the frame that is subtracted. No chain is longer than three frames.",
    )
    return figure


def gulp() -> Figure:
    """Draw a Gulp directory."""
    figure = Figure("A chunk of a Gulp directory")
    figure.note(0, 22, "meta_0.gmeta")
    index = figure.row(
        6, [('{"walk": {"frame_info": [', 2.4, "table"), ("[0, 2, 9312],", 1.4, "table"),
            ("[9312, 0, 9408],", 1.5, "table"), ('...], "meta_data": [{...}]}, "run": ...}', 3.2, "table")],
        110, 770,
    )  # fmt: skip
    figure.note(0, 112, "data_0.gulp")
    data = figure.row(
        96, [("JPEG, 9310 bytes", 2, "data"), ("00 00", 0.6, "free"), ("JPEG, 9408 bytes", 2, "data"),
             ("JPEG", 1.6, "data"), ("00", 0.4, "free"), ("...", 1, "data")], 110, 770,
    )  # fmt: skip
    figure.arrow(foot(index[1]), (data[0][0] + 8, 92))
    figure.arrow(foot(index[2]), (data[2][0] + 8, 92))
    figure.note(0, 156, "A triplet is the position, the padding, and the length with the padding.")
    return figure


def vrs() -> Figure:
    """Draw a VRS recording."""
    figure = Figure("A VRS recording")
    parts = [
        ("header\n80", 0.9, "head"), ("description:\nstreams, layouts, tags", 2.2, "head"),
        ("configuration\n214-1", 1.5, "data"), ("data\n241-1", 1, "data"), ("data\n214-1", 1, "data"),
        ("data\n241-1", 1, "data"), ("...", 0.5, "data"), ("index", 1, "table"),
    ]  # fmt: skip
    file = figure.row(30, parts, height=42)
    figure.arrow(top(file[0]), top(file[7]), 30)
    record = figure.row(
        112, [("record header, 32:\nsize, time, stream, type", 2.3, "head"),
              ("metadata block:\nvalues of the layout", 2, "data"), ("image block", 1.4, "data")],
        160, 600, 42,
    )  # fmt: skip
    figure.zoom(file[4], record)
    figure.text(640, 174, "payload, stored as it is or compressed as a whole")
    return figure


def vrs_store() -> Figure:
    """Draw a recording as columns."""
    figure = Figure("A recording in a frame store: each part of its records is a clip")
    figure.text(130, 14, "records of stream 214-1")
    for number in range(4):
        figure.row(
            24 + 38.0 * number,
            [("time", 0.8, "head"), ("exposure", 1.1, "table"), ("image", 1.2, "data")], 0, 260,
        )  # fmt: skip
    names = ("timestamp", "order", "compression", "0/exposure", "1/image")
    kinds = ("head", "head", "head", "table", "data")
    figure.text(640, 14, "clips 214-1/data-1/...: row n of each is record n")
    for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        figure.row(24 + 31.0 * number, [(name, 1.5, kind), *[(f"{n}", 1, kind) for n in range(4)]],
                   400, 480, 27)  # fmt: skip
    figure.arrow((272, 100), (390, 100))
    return figure


def benzina() -> Figure:
    """Draw a Benzina dataset."""
    figure = Figure("A Benzina dataset: an mp4 of mp4 files")
    parts = [
        ("ftyp", 0.6, "head"), ("mdat: picture 0", 1.8, "data"), ("picture 1", 1.5, "data"),
        ("...", 0.6, "data"), ("targets\n8 each", 1, "free"), ("names", 0.9, "free"),
        ("moov: tracks of pictures,\ntargets, names, thumbnails", 2.6, "table"),
    ]  # fmt: skip
    file = figure.row(30, parts, height=42)
    for number in (1, 2, 4, 5):
        figure.arrow(top(file[6]), top(file[number]), 12 + 5 * (6 - number))
    sample = figure.row(
        112, [("ftyp", 0.6, "head"), ("mdat:\ncoded picture", 1.8, "data"), ("thumbnail", 1.2, "data"),
              ("target", 0.8, "free"), ("name", 0.8, "free"), ("moov: configuration\nof the codec", 1.9, "table")],
        60, 700, 42,
    )  # fmt: skip
    figure.zoom(file[1], sample)
    figure.note(
        0, 176, "Each picture is an mp4 of its own, whose positions are relative to its first byte."
    )
    return figure


FIGURES = {
    "layers": layers,
    "concepts": concepts,
    "archive": archive,
    "bloscpack": bloscpack,
    "blosc-chunk": blosc_chunk,
    "arraychunk": array_chunk,
    "frames": frame_store,
    "frame-references": frame_references,
    "gulp": gulp,
    "vrs": vrs,
    "vrs-store": vrs_store,
    "benzina": benzina,
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in FIGURES.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg(), "utf-8")
    sys.stdout.write(f"{len(FIGURES)} figures in {FOLDER}\n")
