"""Local web page that shows files: ``blpk view``.

`server` is the only module that knows HTTP. It passes each request to the module for the kind of
file, as a `Query`, and gets an `Answer`. The page is ``page/`` with the modules of
``display/page/`` that draw, as in the widgets of notebooks; it needs nothing from elsewhere.
"""
