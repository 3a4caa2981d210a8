"""Records, queries and views of the whole log, in segments and Parquet."""
