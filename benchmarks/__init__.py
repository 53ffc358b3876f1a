"""Benchmarks: what the platform costs, and what its policies gain."""
