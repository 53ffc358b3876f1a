"""Names of labels, containers, volumes and resources in a segment's pod.

A segment is one uninterrupted execution of a trial.
"""

MANAGED_BY = {"app.kubernetes.io/managed-by": "hpo-ops"}
STUDY_LABEL, RUN_LABEL, KEY_LABEL = "hpo-ops/study", "hpo-ops/run", "hpo-ops/key"
TRIAL_LABEL, SEGMENT_LABEL = "hpo-ops/trial", "hpo-ops/segment"
SHARES_ANNOTATION = "hpo-ops/gpu-shares"
"""Annotation of a pod template: number of shares into which each GPU of its pool is divided."""
POOL_LABEL = "hpo-ops/pool"
"""Label of a node: the pool that the node belongs to."""
GPU = "nvidia.com/gpu"

TRAINING, AGENT, RESTORE, PACKAGES = "base", "agent", "restore", "packages"
"""Names of the containers; Airflow requires the name ``base`` for the main container."""
WORKSPACE_VOLUME, SHARED_MEMORY_VOLUME = "hpo", "dshm"
"""Volumes of the workspace, which all containers share, and of the training's ``/dev/shm``."""
AGENT_VOLUME = "hpo-agent"
"""Volume that only the platform's own containers share."""
AGENT_TEMPORARY, TRAINING_TEMPORARY = "agent-tmp", "training-tmp"
"""Volumes for ``/tmp`` in containers whose root filesystem is read-only."""
