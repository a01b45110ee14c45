"""Orders and stock of a small shop."""
