"""The gateway's services: commands on studies, trials and segments.

A segment is one uninterrupted execution of a trial. All commands are idempotent.
"""
