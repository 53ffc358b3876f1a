"""The gateway's HTTP side: routes by resource, authentication, rights and limits."""
