"""Types of records, as pyvrs names them."""

from enum import IntEnum


class RecordType(IntEnum):
    """What a record is; the numbers are those stored on disk."""

    UNDEFINED = 0
    STATE = 1
    CONFIGURATION = 2
    DATA = 3


def type_of(record_type: "RecordType | int | str | None") -> RecordType:
    """Return the type that is meant; ``UNDEFINED``, which is any, for None and ``"any"``.

    Raises
    ------
    ValueError
        There is no such type.
    """
    if record_type is None:
        return RecordType.UNDEFINED
    if not isinstance(record_type, str):
        return RecordType(record_type)
    name = record_type.upper()
    if name == "ANY":
        return RecordType.UNDEFINED
    if name not in RecordType.__members__:
        listed = ", ".join(kind.name.lower() for kind in RecordType if kind)
        raise ValueError(f"record type {record_type!r}: one of {listed}, any")
    return RecordType[name]
