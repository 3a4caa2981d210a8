"""Every act on a version: what is allowed, who signs, what is refused."""
