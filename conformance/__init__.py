"""The conformance run: other people's clients drive flyballd, and a page tells what passed. Knows nothing of its insides."""
