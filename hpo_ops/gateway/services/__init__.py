"""The gateway's services: commands on studies, trials and segments. Each call may be repeated."""
