"""The server's configuration: what the user may write, checked, with every fault told at once."""
