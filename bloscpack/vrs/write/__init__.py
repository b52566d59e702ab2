"""Writers of recordings: streams, records and the index."""
