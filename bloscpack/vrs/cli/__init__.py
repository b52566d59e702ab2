"""``blpk vrs``: commands for VRS recordings."""
