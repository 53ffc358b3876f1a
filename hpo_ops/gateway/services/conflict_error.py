"""The error of a request for a name, key or DAG run that is in use already."""


class ConflictError(ValueError):
    """The name, key or DAG run belongs to another study, job or person."""
