"""Isolation of users' code from the platform. Imports the standard library only.

`allowlist` decides which classes and functions may run inside the platform's own processes; only
the operator can extend the list, never a study. `sandbox` starts a confined process for all other
code.
"""
