"""The gateway's HTTP layer: routes by resource, authentication, rights and limits."""
