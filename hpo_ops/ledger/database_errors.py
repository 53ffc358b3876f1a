"""Database errors that callers of the ledger handle.

The error messages may contain SQL and values: log them, but do not send them to clients.
"""

from __future__ import annotations

from sqlalchemy.exc import DataError, OperationalError

DatabaseUnavailableError = OperationalError
"""The database cannot be reached or cannot answer now; a later attempt may succeed."""
UnstorableValueError = DataError
"""A value is out of range for its column or contains characters that PostgreSQL rejects."""
