"""The servers that ours is compared with: one folder for each, with its own locked environment."""
