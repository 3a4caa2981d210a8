"""The servers that flyball is compared with: one folder each, with its own locked environment."""
