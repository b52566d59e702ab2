"""The API of bloscpack 0.16."""
