"""Compares brokers' own limits with the policies in force."""
