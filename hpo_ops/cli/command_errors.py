"""Errors that end a command with one sentence on standard error instead of a traceback."""


class CommandError(Exception):
    """A command cannot continue; the message says why and what the user can do."""


class AirflowUnavailableError(CommandError):
    """Airflow does not answer or reports a server error; a retry may succeed."""
