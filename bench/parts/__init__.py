"""Other people's servers, real ones: tests and claims run them, kill them and run them again."""
