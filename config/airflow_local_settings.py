"""Imports what tasks and DAG files need, so that the processes forked for them have it already.

Importing KubernetesPodOperator alone costs each of them some seconds of CPU otherwise, and
building its first DAG as much again. The scheduler forks tasks, the DAG processor a process for
each look at a file; others fork nothing, and import nothing here.
"""

from __future__ import annotations

import importlib
import logging
import sys

__all__: list[str] = []  # Airflow takes over no name from here

_FACTORY = "hpo_ops.airflow.dag_factory"


def _forks() -> bool:
    return sys.argv[1:2] in (["scheduler"], ["dag-processor"])


def _preload() -> None:
    """Imports the DAG factory and the operators of all runners, whose generic DAGs it builds."""
    try:
        importlib.import_module(_FACTORY).rehearse()
    except Exception:  # what cannot be imported or built must not stop Airflow
        logging.getLogger(__name__).warning("cannot preload %s", _FACTORY, exc_info=True)


if _forks():
    _preload()
