"""The claims about the first hour of a new user."""
