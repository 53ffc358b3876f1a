"""Names in a segment's pod: labels, containers, volumes, resources."""

MANAGED_BY = {"app.kubernetes.io/managed-by": "hpo-ops"}
STUDY_LABEL, RUN_LABEL, KEY_LABEL = "hpo-ops/study", "hpo-ops/run", "hpo-ops/key"
TRIAL_LABEL, SEGMENT_LABEL = "hpo-ops/trial", "hpo-ops/segment"
SHARES_ANNOTATION = "hpo-ops/gpu-shares"
"""On a template: into how many shares the GPUs of its pool are cut."""
POOL_LABEL = "hpo-ops/pool"
"""On a node: the pool that it belongs to."""
GPU = "nvidia.com/gpu"

TRAINING, AGENT, RESTORE, PACKAGES = "base", "agent", "restore", "packages"
"""Containers; Airflow calls the one that does the work ``base``."""
WORKSPACE_VOLUME, SHARED_MEMORY_VOLUME = "hpo", "dshm"
"""The directory that all containers share, and ``/dev/shm`` of the training."""
AGENT_VOLUME = "hpo-agent"
"""The directory that only the platform's own containers share."""
AGENT_TEMPORARY, TRAINING_TEMPORARY = "agent-tmp", "training-tmp"
"""``/tmp`` of containers whose root filesystem is read-only."""
