"""Reading of records: files, index, scan for records, decoding."""
