"""The runner `docker`, which executes trials as containers on the worker's machine."""
