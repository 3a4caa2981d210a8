"""The admin API: the registry's acts and questions over HTTP, on a listener of its own.

FastAPI and uvicorn are needed only here. Must not touch the data plane.
"""
