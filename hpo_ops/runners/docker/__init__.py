"""Trials as containers of a Docker Engine on the worker's machine."""
