"""Trials as pods on Kubernetes."""
