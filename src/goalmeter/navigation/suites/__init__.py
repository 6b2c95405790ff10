"""Suites: which worlds an agent is put into, as plain data. One file a suite, on `record`."""
