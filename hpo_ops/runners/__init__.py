"""Runners, which execute trials as processes, containers or pods: one folder per runner.

The module ``runner.py`` of each folder implements the port `hpo_ops.config.runner_port.Runner`.
This file imports nothing, since every process that reads study files imports this package.
"""
