"""Imports in the scheduler what tasks need, so that the processes it forks have it already.

Importing KubernetesPodOperator alone costs each task process some seconds of CPU otherwise, and
building its first DAG as much again. Other processes of Airflow's fork no tasks, and import
nothing here.
"""

from __future__ import annotations

import importlib
import logging
import sys

__all__: list[str] = []  # Airflow takes over no name from here

_PRELOADED = (
    "airflow.providers.cncf.kubernetes.operators.pod",
    "hpo_ops.airflow.factory",
)


def _is_scheduler() -> bool:
    return sys.argv[1:2] == ["scheduler"]


def _preload() -> None:
    for name in _PRELOADED:
        try:
            importlib.import_module(name)
        except Exception:  # a module that does not import must not stop Airflow
            logging.getLogger(__name__).warning("cannot preload %s", name, exc_info=True)
    try:
        importlib.import_module("hpo_ops.airflow.factory").rehearse()
    except Exception:
        logging.getLogger(__name__).warning("cannot build a DAG ahead", exc_info=True)


if _is_scheduler():
    _preload()
