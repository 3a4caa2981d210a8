"""The server's configuration and its callers' file."""
