"""The content of a recording as files, JSON and checksums."""
