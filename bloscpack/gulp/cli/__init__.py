"""``blpk gulp``: commands for gulp directories."""
