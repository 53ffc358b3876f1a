"""The runner `kubernetes`, which executes trials as pods."""
