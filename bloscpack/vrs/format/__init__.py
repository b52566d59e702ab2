"""Layout of a VRS file: headers, descriptions, index and payloads."""
