"""Real third-party servers: tests and claims run, kill and restart them."""
