"""Rows and tensors as plain values: files of rows, columns, tensors of the V2 protocol. Must not know models."""
