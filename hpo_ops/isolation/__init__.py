"""Users' code: which of it the platform trusts, and how it runs all other code. Standard library.

`allowlist` says which classes and functions may run inside the platform's own processes: the
operator decides, never a study. `sandbox` starts a process for everything else.
"""
