"""Proofs of records: Merkle paths, checkpoints, evidence packs and their verification."""
