"""Layout of a Bloscpack file: header, metadata section, trailer, chunks and their checksums."""
