"""The gateway: the HTTP API that tasks, agents, the CLI and the UI talk to.

Only this package uses the ledger, the database of studies.
"""
