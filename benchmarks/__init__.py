"""Benchmarks of the platform's overhead and of its policies' gains."""
