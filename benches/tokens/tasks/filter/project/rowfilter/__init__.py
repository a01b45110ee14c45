"""Prints the rows of a CSV file for which a filter holds."""
