"""The seam: what guests use of the core. They import this module, and nothing else of ours.

A guest is a folder that reads another format, shows or converts, and can be deleted
(docs/contributing.md). A name is imported from its home on first use: a guest then loads only what
it needs, and its rows load nothing more.
"""

import importlib
from typing import TYPE_CHECKING, Any

from .parallel.imports import importing

if TYPE_CHECKING:
    from . import display
    from .archive.reader import Archive
    from .array.array import Array
    from .array.arraylike import as_array
    from .array.arraymetadata import new_array, stored_view
    from .array.attrs import default_dims
    from .array.axislabels import (
        DECODED,
        DEFAULT_NAME,
        NO_NAME,
        OURS,
        TYPES,
        UNLIMITED,
        Coord,
        Labels,
        hidden_attrs,
        is_same_coord,
        packed_attrs,
        stored_attrs,
        typed,
        types_of,
    )
    from .array.chunkpieces import contiguous_run
    from .array.dtype import Dtype
    from .cli.console.arrayout import Part, Whole
    from .cli.console.description import Description
    from .cli.console.inputfile import check_input, each_input, one_input, open_input, readable
    from .cli.console.options import (
        STDIO,
        CommandParser,
        Container,
        Subparsers,
        add_command,
        add_folder,
        add_force_option,
        add_json_option,
        add_option,
        byte_size,
        count,
        passed_on,
        positive,
        ranged,
    )
    from .cli.console.output import (
        Console,
        binary_stdout,
        double_pretty_size,
        encode_json,
        error,
        message,
        pretty_size,
        print_done,
        print_json,
        printable,
        result,
        results,
    )
    from .cli.console.outputfile import check_output, json_log
    from .cli.console.reports import print_notices, report_extract, run_each
    from .cli.console.selection import parse_range, parse_selection_text
    from .cli.console.status import (
        EXPECTED,
        STATUS_NAMES,
        ExitCode,
        UsageError,
        describe,
        exit_code,
        most_severe,
    )
    from .cli.console.table import attrs_text, exact_size_text
    from .cli.console.trialtable import Trial, Tuned, command_text, least_seconds
    from .cli.frames.cat import part_of
    from .cli.frames.sheet import open_clip_tiles
    from .cli.frames.tune import tune_clips
    from .cli.sheet import Tiles
    from .damage.report import Damage, Findings, Report, damage_of, message_of
    from .display.colormap import shares_of
    from .display.contactsheet import contact_sheet, pictured, sheet_width, spread
    from .display.framerate import RATE_KEY, RATE_KEYS, is_rate, rate_in, rate_of
    from .display.htmltable import Markup, fields, joined, picture
    from .display.notebook import (
        MAX_FRAMES,
        TILE,
        clip_picture,
        first_rows,
        guarded,
        size_text,
        thumbnail,
    )
    from .display.thumbnail import has_colours
    from .exceptions import (
        BloscpackError,
        CodecError,
        FileChangedError,
        FormatError,
        LockedError,
        NotBloscpackError,
        NotFoundError,
        ObjectNumpyArrayRejection,
        TruncatedError,
        UnsupportedError,
        WrongKindError,
    )
    from .filetypes.arrayclips import ArrayClip, Clips, array_of_clip, clip_id
    from .filetypes.arrayfile import (
        Add,
        ArrayFormat,
        ArrayWriter,
        beside,
        chunks_for,
        is_array_of,
        is_safe,
        label_or,
        refuse_inner,
        without_attrs,
    )
    from .filetypes.arraylabels import (
        encoded,
        encoded_items,
        encoded_times,
        labelled,
        labels_of,
        others_of,
        plain_value,
    )
    from .filetypes.arraysource import (
        PART_NBYTES,
        ArraySource,
        ChoiceError,
        Region,
        Rows,
        SeveralArrays,
        listed,
        only,
    )
    from .filetypes.clipcopy import ClipWriter, attrs_of, is_same, leave_out_of_clips
    from .filetypes.copyjob import COPY_DEFAULTS, Conversion, CopyJob, Tally, new_copy, write_copy
    from .filetypes.identify import identify_known
    from .filetypes.inventory import Inventory, attribute, attributes, quoted
    from .filetypes.open import open_identified
    from .filetypes.picturefolder import FolderSource, ImageClip
    from .filetypes.table import ARCHIVES, ARRAYS, Command, FileType, Group, Target, on_use, verbs
    from .filetypes.verify import verify_source
    from .format.bytefield import unpack_fields
    from .format.codec import new_bytes
    from .format.filekind import (
        DATASET,
        GIF,
        GULP_DIRECTORY,
        HDF5,
        HEAD_NBYTES,
        JPEG,
        NETCDF3,
        NPY,
        PNG,
        RECORDING,
        RECORDING_MAGIC,
        TAR,
        TIFF,
        VIDEO,
        ZARR,
        ZIP,
        FileKind,
        is_mp4,
        kind_of,
        not_gulp,
        wrong_kind,
    )
    from .format.metadata import json_values
    from .frames.indexing import DecodedClip
    from .frames.ingest.items import natural_key
    from .frames.protocol import (
        LABELS_KEY,
        Batch,
        Clip,
        ClipMapping,
        FrameSelection,
        FrameSource,
        Request,
        Wanted,
        check_memory,
        frame_indices,
        read_batch,
        read_clip,
        read_only_meta,
    )
    from .frames.sampler import ClipSampler, check_settings
    from .frames.shownclip import ShownClip
    from .frames.store.framestore import FrameStore
    from .frames.store.openclip import arrays_of, data_of, images_of, is_images, meta_of
    from .frames.verify import verify
    from .keywords import explain_keywords, text_list
    from .media import image
    from .media.filename import FileNames
    from .media.image import ORIENTATION_TAG, TURNS, UPRIGHT, encode_jpeg, encode_png, probe, turn
    from .media.pictureitems import Item, PictureFolder, changed_in_rgb, lost_by_decoding
    from .media.picturelist import LISTS, Listing
    from .media.pyav import ffmpeg_message, is_available, restore_scheduling
    from .media.video import VideoFrames, read_video
    from .media.videowriter import (
        check_crf,
        gif_length,
        gif_rate,
        rgb_frames,
        write_gif,
        write_mp4,
    )
    from .notice import notice, warn_unclosed
    from .parallel.arraypool import ArrayPool
    from .parallel.imports import (
        compiled_kernels,
        import_av,
        import_pillow,
        importing,
        optional_library,
    )
    from .parallel.processes import map_in_processes
    from .parallel.progressbar import ProgressBar, as_progress
    from .parallel.scratch import Scratch
    from .parallel.threads import (
        ALL_THREADS,
        available_cpus,
        map_ahead,
        map_ordered,
        resolve_nthreads,
        run_beside,
        run_indexed,
    )
    from .storage import disk
    from .storage.batch import Piece, fetch
    from .storage.coalescing import (
        FIELDS,
        LOCAL,
        RECORDS,
        REMOTE,
        Policy,
        plan_array_runs,
        plan_runs,
    )
    from .storage.file import (
        FileObjectSource,
        FileSource,
        Holes,
        Place,
        kind_at,
        open_source,
        refuse_folder,
    )
    from .storage.folder.filelist import ListedFolder
    from .storage.folder.outputfolder import Folder
    from .storage.lock import is_locking, try_lock_for_writing
    from .storage.memory import MemorySource
    from .storage.newfile import check_regular, create_like, make_like, temporary_path
    from .storage.pool import FilePool
    from .storage.protocol import (
        ByteSink,
        ByteSource,
        ErrorsAt,
        Extent,
        Prefetch,
        closed_on_error,
        errors_at,
    )
    from .storage.remote.prefetch import at_hand, prefetched
    from .storage.remote.source import may_wait
    from .storage.sink import FileSink, check_absent, committed, is_in_place, open_path, open_sink
    from .storage.update import forked_error
    from .storage.url import is_url, refuse_url, refuse_url_as_target, shown, shown_name
    from .storage.window import WindowSource
    from .types import (
        AnyArray,
        BytesLike,
        ClosedOnExit,
        FramePreset,
        IntArray,
        OnBadItem,
        Path,
        PictureCodec,
        Progress,
        ProgressOption,
    )
    from .version import __version__
else:
    # Homes and the names in them; `tests/test_plugin.py` compares them with those above.
    _HOMES = """
    exceptions: BloscpackError CodecError FileChangedError FormatError LockedError NotBloscpackError
    exceptions: NotFoundError ObjectNumpyArrayRejection TruncatedError UnsupportedError
    exceptions: WrongKindError
    keywords: explain_keywords text_list
    notice: notice warn_unclosed
    types: AnyArray BytesLike ClosedOnExit FramePreset IntArray OnBadItem Path PictureCodec Progress
    types: ProgressOption
    version: __version__
    parallel.arraypool: ArrayPool
    parallel.imports: compiled_kernels import_av import_pillow importing optional_library
    parallel.processes: map_in_processes
    parallel.progressbar: ProgressBar as_progress
    parallel.scratch: Scratch
    parallel.threads: ALL_THREADS available_cpus map_ahead map_ordered resolve_nthreads run_beside
    parallel.threads: run_indexed
    format.bytefield: unpack_fields
    format.codec: new_bytes
    format.filekind: DATASET FileKind GIF GULP_DIRECTORY HDF5 HEAD_NBYTES JPEG NETCDF3 NPY PNG
    format.filekind: RECORDING RECORDING_MAGIC TAR TIFF VIDEO ZARR ZIP is_mp4 kind_of not_gulp
    format.filekind: wrong_kind
    format.metadata: json_values
    storage.batch: Piece fetch
    storage.lock: is_locking try_lock_for_writing
    storage.file: FileObjectSource FileSource Holes Place kind_at open_source refuse_folder
    storage.folder.filelist: ListedFolder
    storage.folder.outputfolder: Folder
    storage.memory: MemorySource
    storage.pool: FilePool
    storage.protocol: ByteSink ByteSource ErrorsAt Extent Prefetch closed_on_error errors_at
    storage.remote.prefetch: at_hand prefetched
    storage.remote.source: may_wait
    storage.coalescing: FIELDS LOCAL Policy RECORDS REMOTE plan_array_runs plan_runs
    storage.sink: FileSink check_absent committed is_in_place open_path open_sink
    storage.newfile: check_regular create_like make_like temporary_path
    storage.update: forked_error
    storage.url: is_url refuse_url refuse_url_as_target shown shown_name
    storage.window: WindowSource
    display.notebook: MAX_FRAMES TILE clip_picture first_rows guarded size_text thumbnail
    display.colormap: shares_of
    display.contactsheet: contact_sheet pictured sheet_width spread
    display.framerate: RATE_KEY RATE_KEYS is_rate rate_in rate_of
    display.htmltable: Markup fields joined picture
    display.thumbnail: has_colours
    array.array: Array
    array.arraylike: as_array
    array.arraymetadata: new_array stored_view
    array.attrs: default_dims
    array.axislabels: Coord DECODED DEFAULT_NAME Labels NO_NAME OURS TYPES UNLIMITED hidden_attrs
    array.axislabels: is_same_coord packed_attrs stored_attrs typed types_of
    array.chunkpieces: contiguous_run
    array.dtype: Dtype
    damage.report: Damage Findings Report damage_of message_of
    archive.reader: Archive
    media.filename: FileNames
    media.image: ORIENTATION_TAG TURNS UPRIGHT encode_jpeg encode_png probe turn
    media.pictureitems: Item PictureFolder changed_in_rgb lost_by_decoding
    media.picturelist: LISTS Listing
    media.pyav: ffmpeg_message is_available restore_scheduling
    media.video: VideoFrames read_video
    media.videowriter: check_crf gif_length gif_rate rgb_frames write_gif write_mp4
    frames.indexing: DecodedClip
    frames.ingest.items: natural_key
    frames.protocol: Batch Clip ClipMapping FrameSelection FrameSource LABELS_KEY Request Wanted
    frames.protocol: check_memory frame_indices read_batch read_clip read_only_meta
    frames.sampler: ClipSampler check_settings
    frames.shownclip: ShownClip
    frames.store.framestore: FrameStore
    frames.store.openclip: arrays_of data_of images_of is_images meta_of
    frames.verify: verify
    filetypes.arrayclips: ArrayClip Clips array_of_clip clip_id
    filetypes.arrayfile: Add ArrayFormat ArrayWriter beside chunks_for is_array_of is_safe label_or
    filetypes.arrayfile: refuse_inner without_attrs
    filetypes.arraylabels: encoded encoded_items encoded_times labelled labels_of others_of
    filetypes.arraylabels: plain_value
    filetypes.arraysource: ArraySource ChoiceError PART_NBYTES Region Rows SeveralArrays listed only
    filetypes.clipcopy: ClipWriter attrs_of is_same leave_out_of_clips
    filetypes.copyjob: COPY_DEFAULTS Conversion CopyJob Tally new_copy write_copy
    filetypes.identify: identify_known
    filetypes.inventory: Inventory attribute attributes quoted
    filetypes.open: open_identified
    filetypes.picturefolder: FolderSource ImageClip
    filetypes.table: ARCHIVES ARRAYS Command FileType Group Target on_use verbs
    filetypes.verify: verify_source
    cli.console.arrayout: Part Whole
    cli.console.description: Description
    cli.console.inputfile: check_input each_input one_input open_input readable
    cli.console.options: CommandParser Container STDIO Subparsers add_command add_option add_folder
    cli.console.options: add_force_option add_json_option byte_size count passed_on positive ranged
    cli.console.output: Console binary_stdout double_pretty_size encode_json error message
    cli.console.output: pretty_size print_done print_json printable result results
    cli.console.outputfile: check_output json_log
    cli.console.reports: print_notices report_extract run_each
    cli.console.selection: parse_range parse_selection_text
    cli.console.status: EXPECTED ExitCode STATUS_NAMES UsageError describe exit_code most_severe
    cli.console.table: attrs_text exact_size_text
    cli.console.trialtable: Trial Tuned command_text least_seconds
    cli.frames.cat: part_of
    cli.frames.sheet: open_clip_tiles
    cli.frames.tune: tune_clips
    cli.sheet: Tiles
    """
    _MODULES = {"disk": "storage.disk", "display": "display", "image": "media.image"}
    _HOME_OF = {
        name: home
        for home, _, names in (line.strip().partition(":") for line in _HOMES.splitlines())
        for name in names.split()
    }

    def __getattr__(name: str) -> Any:
        """Import a name on first use."""
        home = _MODULES.get(name) or _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with importing:
            found = importlib.import_module(f"bloscpack.{home}")
        value = globals()[name] = found if name in _MODULES else getattr(found, name)
        return value
