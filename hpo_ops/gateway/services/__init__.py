"""What the gateway does to studies: one module a service, each call one transaction."""
