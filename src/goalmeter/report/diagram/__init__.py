"""Graphs as pictures: an influence diagram as text and as SVG."""
