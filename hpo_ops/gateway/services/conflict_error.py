"""The error of a request for something that is somebody's, or something else's, already."""


class ConflictError(ValueError):
    """The name, key or DAG run is taken by something else."""
