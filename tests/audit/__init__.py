"""The audit of dependencies and of silenced security rules: `make audit`."""
