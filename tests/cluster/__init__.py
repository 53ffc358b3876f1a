"""A real Kubernetes for the tests: `python -m tests.cluster build|up|down|status|kubeconfig`."""
