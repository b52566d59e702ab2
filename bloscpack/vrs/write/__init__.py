"""Writing a recording: streams, records and the index."""
