"""``blpk bzna``: commands for Benzina datasets."""
