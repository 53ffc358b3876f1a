"""Errors that end a command with a sentence instead of a traceback."""


class CommandError(Exception):
    """What went wrong, in a sentence for the person at the terminal."""


class AirflowAwayError(CommandError):
    """Airflow does not answer, or says that it cannot now; it may be starting again."""
