"""Errors that end a command with one sentence on standard error instead of a traceback."""


class CommandError(Exception):
    """A command cannot continue; the message states the cause and what the user can do."""


class AirflowUnavailableError(CommandError):
    """Airflow does not answer or returns a server error; a retry may succeed."""
