"""Places where trials run: this process, a process pool, Ray tasks and submitit arrays."""
