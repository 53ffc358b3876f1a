"""Runners: ways of executing trials, one folder each.

The module ``runner.py`` of each folder implements the port `hpo_ops.config.runner_port.Runner`.
Nothing is imported here, since every process that reads study files imports those modules.
"""
