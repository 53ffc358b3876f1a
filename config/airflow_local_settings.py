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

_PRELOADED = (
    "airflow.providers.cncf.kubernetes.operators.pod",
    "hpo_ops.airflow.dag_factory",
)


def _forks() -> bool:
    return sys.argv[1:2] in (["scheduler"], ["dag-processor"])


def _preload() -> None:
    for name in _PRELOADED:
        try:
            importlib.import_module(name)
        except Exception:  # a module that does not import must not stop Airflow
            logging.getLogger(__name__).warning("cannot preload %s", name, exc_info=True)
    try:
        importlib.import_module("hpo_ops.airflow.dag_factory").rehearse()
    except Exception:
        logging.getLogger(__name__).warning("cannot build a DAG ahead", exc_info=True)


if _forks():
    _preload()
