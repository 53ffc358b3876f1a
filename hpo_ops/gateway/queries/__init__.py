"""Read models for the CLI and the UI, built from rows that the ledger's queries return.

Queries change nothing and take no lock: they show what is committed at the time of the request.
"""
