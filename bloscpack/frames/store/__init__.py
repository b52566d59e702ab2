"""The frame store: format, index, reader, writer and verification."""
