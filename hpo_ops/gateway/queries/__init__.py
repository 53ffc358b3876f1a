"""Read models for the CLI and the UI, built from rows that the ledger's queries return.

The functions read committed data only, change nothing and take no lock.
"""
