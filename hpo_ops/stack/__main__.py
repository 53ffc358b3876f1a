"""`python -m hpo_ops.stack up|down|status`: starts, stops or checks the stack of a folder."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from typing import NoReturn

from hpo_ops.stack import Stack, StackError, Update, stopping_at_the_end


def main(arguments: list[str] | None = None) -> int:
    """Runs the command `up`, `down` or `status`, and returns the exit code of the program.

    The code is 0 for success, 1 for an error, 3 if `status` finds an unhealthy service, and 130
    after Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog="python -m hpo_ops.stack", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "status"))
    parser.add_argument(
        "--root", type=Path, default=Path(".hpo"), help="folder of the stack's state (.hpo)"
    )
    parser.add_argument(
        "--project", type=Path, help="folder with dags/ and plugins/ (default: this checkout)"
    )
    parser.add_argument("--port", type=int, help="preferred port of the UI (default: 8080)")
    parser.add_argument(
        "--foreground",
        action="store_true",
        help="up: stay in the foreground, restart services that die or hang, stop all on Ctrl-C",
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    stack = Stack(options.root, project=options.project, port=options.port)
    try:
        if options.command == "up":
            return _up(stack, foreground=options.foreground)
        return {"down": _down, "status": _status}[options.command](stack)
    except StackError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


def _up(stack: Stack, *, foreground: bool) -> int:
    stack.start(_print_update)
    _write(f"Airflow: {stack.url} (user {stack.username}, password {stack.password})")
    if foreground:
        _write("supervising the services; Ctrl-C stops all of them")
        with stopping_at_the_end(stack, _print_update):
            stack.supervise(_write, until=threading.Event())
    return 0


def _down(stack: Stack) -> int:
    stack.stop(_print_update)
    return 0


def _status(stack: Stack) -> int:
    for status in stack.status():
        state = "healthy" if status.is_healthy else "not healthy" if status.pid else "stopped"
        _write(f"{status.part:<14} {state:<12} pid {status.pid or '-':<8} {status.log}")
    return 0 if stack.is_healthy() else 3


def _print_update(update: Update) -> None:
    _write(str(update))


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _exit_on_signal(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
