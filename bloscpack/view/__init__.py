"""Local web page that shows files: ``blpk view``.

`server` is the only module that knows HTTP. It passes each request to the module for the kind of
file, as a `Query`, and gets an `Answer`. The page is in ``page/``; it needs nothing from elsewhere.
"""
