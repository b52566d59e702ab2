"""``blpk frames``: commands for clips of frames."""
