"""Rows of VRS recordings in the tables of file types and commands."""

from ..plugin import RECORDING, Command, FileType, Group, Target, on_use, verbs

_VIEWS = {each: on_use("vrs.page", each) for each in ("timeline", "record", "column", "audio")}
FILETYPES = (
    FileType(
        "vrs",
        (RECORDING,),
        open_frames=on_use("vrs.framesource", "RecordingSource"),
        verify=on_use("vrs.verify", "verify_file"),
        recover=on_use("vrs.recover", "recover_recording"),
        repair="'blpk vrs fix-index' rebuilds an index; recover writes a new recording of the "
        "whole records",
        has_decode=True,
        unit="record",
        needs_path=True,
        options={
            "preset": "",
            "verbatim": "from a VRS recording: also store what is needed to restore the same bytes",
        },
        suffixes=(".vrs",),
        dtypes={"recording": "records"},
        copy=on_use("vrs.convert", "copy_to_store"),
        **verbs("vrs.cli", "about", "entry", "open_part", "tune"),
        views={"recording": on_use("vrs.page", "describe"), **_VIEWS},
    ),
)
TARGETS = (
    Target(
        "vrs",
        on_use("vrs.convert", "copy_to_recording"),
        (".vrs",),
        accepts=on_use("vrs.store", "is_recording_store"),
    ),
)
COMMANDS = (
    Group(
        "vrs",
        "list, check, extract, copy and repair VRS recordings",
        "Work with VRS recordings: records of sensors with time stamps.",
        ("vrs",),
        (
            Command("info", "describe recordings", "cli.info", options="vrs.cli.info"),
            Command("list", "list records", "vrs.cli.listrecords", ("ls",)),
            Command("print", "print records", "vrs.cli.printrecords"),
            Command("verify", "check recordings for damage", "cli.verify", ("check",)),
            Command("checksum", "print the checksum of tags and records", "vrs.cli.checksum"),
            Command("extract", "write images, audio and metadata into files", "vrs.cli.extract"),
            Command("copy", "copy all or part of a recording", "vrs.cli.copy"),
            Command("merge", "merge several recordings into one", "vrs.cli.merge"),
            Command("fix-index", "rebuild a missing or wrong index", "vrs.cli.fixindex"),
        ),
    ),
)
