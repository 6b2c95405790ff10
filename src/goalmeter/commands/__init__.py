"""The commands: options in, an outcome out; one file a command."""
