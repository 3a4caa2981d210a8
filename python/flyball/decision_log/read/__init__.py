"""Records, queries and pages of the whole log: segments and Parquet alike."""
