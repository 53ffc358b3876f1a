"""Errors of the ledger's database that callers of the ledger handle.

Their messages may contain SQL and values: log them, do not send them to callers of the gateway.
"""

from __future__ import annotations

from sqlalchemy.exc import DataError, OperationalError

DatabaseUnavailableError = OperationalError
"""The database cannot be reached or cannot answer now; a later attempt may succeed."""
UnstorableValueError = DataError
"""A value is out of range for its column, or has characters that PostgreSQL cannot store."""
