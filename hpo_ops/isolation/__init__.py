"""Isolation of users' code from the platform. Imports the standard library only.

`allowlist` says which classes and functions may run inside the platform's own processes: the
operator decides, never a study. `sandbox` starts a confined process for all other code.
"""
