"""Read models for the CLI and the UI: studies, trials, experiments. Queries change nothing."""
