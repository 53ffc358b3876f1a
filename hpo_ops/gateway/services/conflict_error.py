"""The error for a request whose name, idempotency key or DAG run is already in use."""


class ConflictError(ValueError):
    """The name, idempotency key or DAG run belongs to another study, job or person."""
