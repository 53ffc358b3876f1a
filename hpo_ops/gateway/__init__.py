"""The gateway: the HTTP API that tasks, agents, the CLI and the UI talk to.

The only thing that touches the ledger.
"""
