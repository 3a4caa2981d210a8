"""The cases, grouped by the client that runs them. They know addresses and protocols, nothing of the server's insides."""
