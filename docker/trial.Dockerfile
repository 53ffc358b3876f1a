# Two small images for trials as pods. Build them from the project's folder:
#   docker build --file docker/trial.Dockerfile --target agent --tag hpo-agent .
#   docker build --file docker/trial.Dockerfile --target training --tag hpo-training .
FROM python:3.11-slim-bookworm AS agent

# The agent hands its shell on to training images that have none.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends busybox-static \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 hpo
WORKDIR /srv/hpo

COPY pyproject.toml constraints.txt README.md ./
COPY hpo_ops ./hpo_ops
# What the agent and the SDK import; all else that the package can do stays out.
RUN pip install --no-cache-dir --constraint constraints.txt httpx obstore \
    && pip install --no-cache-dir --no-deps .
USER 1000

# For studies that bring code and name no image.
FROM agent AS training

# By default torch as the package index has it, with CUDA. For machines without a GPU, or another
# CUDA, the address of an index that has such wheels.
ARG TORCH_INDEX_URL=""
USER root
RUN pip install --no-cache-dir --constraint constraints.txt \
        ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} torch \
    && pip install --no-cache-dir --constraint constraints.txt numpy scikit-learn
USER 1000
