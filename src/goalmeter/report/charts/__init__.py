"""Pictures as inline SVG; a file is named by what it draws, on one `canvas` in shared `colours`."""
