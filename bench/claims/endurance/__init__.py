"""Claims that take long: a server under every kind of trouble at once, and tests beside busy processes."""
