"""The demo: the embedded agents measured, and one page written."""
