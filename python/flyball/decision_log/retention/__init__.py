"""What is kept, moved to Parquet, held, erased and removed."""
