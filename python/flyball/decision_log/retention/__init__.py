"""Retention: compaction to Parquet, legal holds, erasure and removal."""
