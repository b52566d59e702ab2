"""``blpk frames cat``: write frames of a clip to standard output or a file."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...filetypes.identify import split_inner
from ...filetypes.open import frames_of, open_frames
from ...filetypes.table import FileType
from ...frames.protocol import Clip, FrameSource, frame_indices
from ...media.image import probe
from ...storage.url import shown_name
from ...types import AnyArray
from ..console.arrayout import Part, add_output_options, check_suffix, form_of, write_part
from ..console.describe import dtype_text
from ..console.options import STDIO, add_json_option
from ..console.output import Console, print_json
from ..console.outputfile import check_output, open_output
from ..console.selection import Index, parse_selection_text, strip_brackets
from ..console.status import ExitCode, UsageError
from .clips import only_clip, open_clips, parse_frames

# Larger selections are read and written in pieces of about this size, in bytes.
_PIECE_NBYTES = 32 << 20
_IMAGES = ("png", "jpeg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Write the pixels of frames in C order or, with --image, the stored JPEG or PNG file "
        "of one frame."
    )
    parser.add_argument("file_", metavar="STORE", help="frame store or gulp directory")
    parser.add_argument("id", metavar="ID", help="clip")
    parser.add_argument(
        "--select",
        metavar="FRAMES",
        help="a number, a range like 0:32:2, or numbers like 3,4,9 (default: all)",
    )
    kind = add_output_options(parser)
    kind.add_argument("--image", action="store_true", help="write the JPEG or PNG file as stored")
    add_json_option(kind)


def run(args: argparse.Namespace) -> int:
    """Write the frames."""
    console = Console(args)
    selection = slice(None) if args.select is None else parse_frames(args.select)
    if args.image and not isinstance(selection, int):
        raise UsageError("--image writes a single frame: give its number with --select")
    if not args.json:
        is_safe = args.text and args.output == STDIO
        check_output(args.output, [args.file_], console, force=args.force or is_safe)
    form = "raw" if args.image else form_of(args)
    if form in _IMAGES and not isinstance(selection, int):
        raise UsageError(
            f"'{args.output}' can hold only one frame: give its number with --select; a .npy file "
            "holds several, and 'blpk frames sheet' makes one picture of several"
        )
    with open_clips(args.file_, args.nthreads) as source:
        clip = source[args.id]
        if args.image:
            single = _image(clip, selection)
            check_suffix(args.output, probe(single).kind)
            with open_output(args.output) as sink:
                sink.write(single)
            return ExitCode.OK
        image = _stored_image(clip, selection) if form in _IMAGES and not args.json else None
        if image is not None and probe(image).kind == form:
            with open_output(args.output) as sink:  # copy it: exact, and not encoded again
                sink.write(image)
            return ExitCode.OK
        part = _Frames(clip, selection)
        if args.json:
            _print_shape(args, part)
            return ExitCode.OK
        with open_output(args.output, is_ordered=True) as sink, console.progress() as progress:
            write_part(sink, part, progress, form)
    return ExitCode.OK


class _Frames:
    """Selected frames of a clip."""

    def __init__(self, clip: Clip, selection: Any, rest: Index = ()) -> None:
        try:
            indices, is_single = frame_indices(selection, len(clip))
        except IndexError as err:
            raise ValueError(f"clip {clip.id!r:.80}: {err}") from None
        self._clip = clip
        self._indices = indices
        self._is_single = is_single
        # Images may differ in shape: the first selected frame determines the shape.
        first = clip.shape[1:] if not len(indices) else clip.read(int(indices[0])).shape
        self._rest = rest if is_single or not rest else (slice(None), *rest)
        if rest:
            try:
                first = np.broadcast_to(np.empty((), clip.dtype), first)[rest].shape
            except IndexError as err:
                raise ValueError(f"selection: {err}; the shape is {clip.shape}") from None
        self.shape = first if is_single else (len(indices), *first)
        self.dtype = clip.dtype
        self._frame_nbytes = int(np.prod(first)) * clip.dtype.itemsize
        self.nbytes = self._frame_nbytes * len(indices)

    @property
    def is_large(self) -> bool:
        """Whether the frames are read in pieces."""
        return self.nbytes > _PIECE_NBYTES and len(self._indices) > 1

    def read(self) -> AnyArray:
        """Return all selected frames."""
        found = self._clip.read(int(self._indices[0]) if self._is_single else self._indices)
        return np.asarray(found[self._rest]) if self._rest else found

    def stored_image(self) -> bytes | None:
        """Return the JPEG or PNG file of a single frame, or None if there is none."""
        if not self._is_single or self._rest:
            return None
        return _stored_image(self._clip, int(self._indices[0]))

    def pieces(self) -> Iterator[AnyArray]:
        """Yield pieces of the selection, in order."""
        if not self.is_large:
            yield self.read()
            return
        step = max(1, _PIECE_NBYTES // self._frame_nbytes)
        for start in range(0, len(self._indices), step):
            found = self._clip.read(self._indices[start : start + step])
            yield np.asarray(found[self._rest]) if self._rest else found


@contextmanager
def open_part(
    args: argparse.Namespace, filetype: FileType, source: Any, inner: str
) -> Iterator[Part]:
    """Open the frames of a clip that ``blpk cat`` selects."""
    with frames_of(filetype, source, nthreads=args.nthreads) as clips:
        yield part_of(args, clips, inner)


@contextmanager
def open_parts(args: argparse.Namespace, names: list[str], inner: str) -> Iterator[Part]:
    """Open the frames of a clip in one of several stores."""
    with open_frames([split_inner(each)[0] for each in names], nthreads=args.nthreads) as clips:
        yield part_of(args, clips, inner)


def part_of(args: argparse.Namespace, clips: FrameSource, inner: str) -> Part:
    """Return the selected part of a clip."""
    clip = only_clip(clips, inner)
    index = () if args.selection is None else parse_selection_text(args.selection)
    if ... in index:
        at = index.index(...)
        missing = max(0, len(clip.shape) - len(index) + 1)
        index = (*index[:at], *(slice(None),) * missing, *index[at + 1 :])
    return _Frames(clip, index[0] if index else slice(None), index[1:])


def _stored_image(clip: Clip, index: Any) -> bytes | None:
    """Return the JPEG or PNG file of a frame, or None if the frame is stored as an array."""
    try:
        images = clip.read_images(index)
    except IndexError as err:
        raise ValueError(f"clip {clip.id!r:.80}: {err}") from None
    return None if images is None else images[0]


def _image(clip: Clip, index: Any) -> bytes:
    image = _stored_image(clip, index)
    if image is None:
        raise ValueError(
            f"clip {clip.id!r:.80}: its frames are stored as arrays, not as images; "
            "'blpk frames sheet' makes a picture of them"
        )
    return image


def _print_shape(args: argparse.Namespace, part: _Frames) -> None:
    print_json(
        "frames cat",
        {
            "path": shown_name(args.file_),
            "id": args.id,
            "selection": args.select and strip_brackets(args.select),
            "shape": part.shape,
            "dtype": dtype_text(part.dtype),
            "nbytes": part.nbytes,
        },
    )
