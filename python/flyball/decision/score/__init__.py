"""The offline twin: files of rows through the same server and API."""
