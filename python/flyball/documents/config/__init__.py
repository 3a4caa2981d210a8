"""The server's configuration: what the user may write, checked, with every fault told at once."""

from flyball.documents.config.server import ServerConfig, read_server_config

__all__ = ["ServerConfig", "read_server_config"]
