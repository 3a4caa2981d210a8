"""Model repositories in Triton's layout, read so that they can be served here, with every field that does not map said."""
