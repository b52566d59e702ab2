"""The Bloscpack container: header, metadata, offset table and a stream of Blosc chunks."""
