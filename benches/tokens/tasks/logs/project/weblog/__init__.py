"""Counts requests in access logs."""
