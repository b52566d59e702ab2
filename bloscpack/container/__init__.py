"""Bloscpack container: header, metadata, offset table and a sequence of Blosc chunks."""
