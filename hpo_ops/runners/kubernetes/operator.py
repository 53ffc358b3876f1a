"""The Airflow operator of trials that run as pods.

Each segment (one uninterrupted execution of a trial) is a pod, which is found by its labels.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowFailException
from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from hpo_ops.airflow.connections import (
    connect_gateway,
    pod_gateway_url,
    pod_store_environment,
)
from hpo_ops.airflow.entered_study import config_of
from hpo_ops.airflow.trial_task import TrialTask, assigned
from hpo_ops.client import GatewayClient, NextAction, StudyHandle, TrialResult
from hpo_ops.config import Pod, Resources, StudyConfig
from hpo_ops.protocol import Cause, Outcome, Provenance, SegmentResult
from hpo_ops.runners.kubernetes._cluster_connection import DEFAULT_NAMESPACE, KUBERNETES
from hpo_ops.runners.kubernetes._pod_admission import PodRefusedError, judge_namespace
from hpo_ops.runners.kubernetes._pod_checks import read_pod_policy
from hpo_ops.runners.kubernetes._pod_names import SEGMENT_LABEL
from hpo_ops.runners.kubernetes._pod_spec import build_pod
from hpo_ops.runners.kubernetes._pod_status import Phase, PodStatus, image_digest, read_status
from hpo_ops.runners.kubernetes._pod_templates import read_template
from hpo_ops.runners.kubernetes._pod_trigger import SegmentTrigger
from hpo_ops.runners.kubernetes._segment_pod import SegmentPod, Spec, trial_labels
from hpo_ops.runners.platform_images import agent_image, training_image

if TYPE_CHECKING:
    from airflow.sdk import Context

SEGMENT_KEY = "pod"
"""Idempotency key of all attempts of a task, by which a retry finds the segment and its pod."""
NATIVE_SIDECARS = (1, 29)


class TrialPodOperator(TrialTask, KubernetesPodOperator):
    """Runs one trial as a sequence of pods; the task is deferred while a pod runs.

    Airflow's `KubernetesPodOperator` connects to the cluster and builds the request. This class
    waits for the pods itself, since a segment ends when its agent has uploaded everything, not
    when the training container ends, and since a trial may have several pods in sequence.
    """

    ui_color = "#e8def8"
    template_fields = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            **{
                "kubernetes_conn_id": KUBERNETES,
                "random_name_suffix": False,
                "automount_service_account_token": None,
                "do_xcom_push": False,  # no sidecar for it: the score is pushed by hand
                **kwargs,
            }
        )

    def execute(self, context: Context) -> None:
        TrialTask.execute(self, context)

    def segment_key(self) -> str:
        return SEGMENT_KEY

    def run_segment(
        self, gateway: GatewayClient, study: StudyHandle, action: NextAction, context: Context
    ) -> TrialResult | None:
        assignment = assigned(action)
        settings = PodSettings.of(config_of(study), action)
        namespace = self._namespace_of(study)
        pod = self.find_segment(namespace, assignment.segment)
        if pod is None:
            pod = self._start(study, action, settings, namespace, context)
        else:
            self.log.info("pod %s of this segment is running already", pod.metadata.name)
        self.defer(
            trigger=SegmentTrigger(
                segment=assignment.segment,
                namespace=namespace,
                pod=pod.metadata.name,
                conn_id=self.kubernetes_conn_id or KUBERNETES,
                schedule_timeout=settings.pod.schedule_timeout,
            ),
            method_name="come_back",
            kwargs={
                "segment": assignment.segment,
                "namespace": namespace,
                "ooms": action.ooms,
                "study": study.to_dict(),
            },
        )

    def come_back(
        self,
        context: Context,
        event: Mapping[str, Any],
        segment: str,
        namespace: str,
        ooms: int,
        study: Mapping[str, Any],
    ) -> None:
        """Reports how a segment's pod ended, deletes the pod, and continues or ends the trial.

        Airflow calls this method when the trigger has fired.

        Args:
            context: Airflow's context of the task.
            event: The trigger's event, with the reason why the trigger fired.
            segment: The segment's id.
            namespace: The namespace of the segment's pod.
            ooms: How many earlier segments of the trial ran out of memory.
            study: The study's `StudyHandle`, converted to a mapping.
        """
        handle = StudyHandle.from_dict(study)
        pod = self.find_segment(namespace, segment)
        status = read_status(pod, datetime.now(UTC))
        result = self._judge(status, event, config_of(handle).resources, ooms)
        if status.said:
            self.log.info("last output of the container that failed:\n%s", status.said)
        digest = image_digest(pod)
        receipt = connect_gateway().finish_segment(
            segment, result, provenance=Provenance(image_digest=digest), is_fallback=True
        )
        self.announce_end(receipt.result)
        if pod is not None:
            self.delete(pod, is_lost=status.is_lost)
        if receipt.score is not None:
            self.end(context, handle, receipt.score)
        else:
            self.execute(context)

    def end(self, context: Context, study: StudyHandle, score: TrialResult) -> None:
        if context["ti"].try_number > 1:
            try:
                self._delete_ended(study, score.trial)
            except ApiException as error:
                self.log.warning(
                    "a pod of an earlier attempt is left for the reconciler: %s", error.reason
                )
        TrialTask.end(self, context, study, score)

    def _judge(
        self, status: PodStatus, event: Mapping[str, Any], resources: Resources, ooms: int
    ) -> SegmentResult:
        """Returns how a segment ended according to its pod's status and the trigger's event.

        The gateway uses this result only if the segment's agent has not reported a result.
        """
        if timeout := event.get("timeout"):
            return SegmentResult(outcome=Outcome.FAILED, reason=timeout, cause=Cause.NOT_STARTED)
        if unwanted := event.get("unwanted"):
            return SegmentResult(outcome=Outcome.PREEMPTED, reason=unwanted, cause=Cause.REQUESTED)
        result = status.result
        if result.cause is Cause.OUT_OF_MEMORY and ooms < len(resources.memory_on_oom):
            reason = f"{result.reason}; the next attempt gets {resources.memory_on_oom[ooms]}"
            return replace(result, outcome=Outcome.PREEMPTED, reason=reason)
        return result

    # -- Kubernetes --------------------------------------------------------------------------

    def find_segment(self, namespace: str, segment: str) -> kubernetes.V1Pod | None:
        """Returns the pod of a segment, or None if the pod does not exist."""
        found = self.client.list_namespaced_pod(
            namespace, label_selector=f"{SEGMENT_LABEL}={segment}"
        ).items
        return found[0] if found else None

    def _namespace_of(self, study: StudyHandle) -> str:
        return config_of(study).pod.namespace or self._own_namespace()

    def _own_namespace(self) -> str:
        return self.hook.get_namespace() or DEFAULT_NAMESPACE

    def _delete_ended(self, study: StudyHandle, number: int) -> None:
        """Deletes ended pods of a trial that earlier attempts of its Airflow task left behind."""
        labels = trial_labels(study.name, study.run_id, number, key=study.key)
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        found = self.client.list_namespaced_pod(
            self._namespace_of(study), label_selector=selector
        ).items
        for pod in found:
            status = read_status(pod, datetime.now(UTC))
            if status.phase is Phase.ENDED:
                self.delete(pod, is_lost=status.is_lost)

    def delete(self, pod: kubernetes.V1Pod, *, is_lost: bool) -> None:
        """Deletes a pod; does nothing if the pod does not exist.

        If the pod has ended or its node is lost, the deletion does not wait for the node, which
        might confirm the deletion late or never.
        """
        is_over = is_lost or pod.status.phase in ("Succeeded", "Failed")
        try:
            self.client.delete_namespaced_pod(
                pod.metadata.name,
                pod.metadata.namespace,
                grace_period_seconds=0 if is_over else None,
            )
        except ApiException as error:
            if error.status != 404:
                raise

    def _start(
        self,
        study: StudyHandle,
        action: NextAction,
        settings: PodSettings,
        namespace: str,
        context: Context,
    ) -> kubernetes.V1Pod:
        assignment = assigned(action)
        config = config_of(study)
        secret = f"hpo-{assignment.segment}"
        plan = SegmentPod(
            assignment=assignment,
            study=study.name,
            run_id=study.run_id,
            key=study.key,
            command=config.command,
            image=settings.image,
            agent_image=settings.agent_image,
            gateway_url=pod_gateway_url(),
            secret=secret,
            resources=settings.resources,
            pod=settings.pod,
            environment=config.env,
            code=study.archive,
            packages=study.packages,
            policy=read_pod_policy(),
            names_image=config.image is not None,
            has_native_sidecars=self.server_version >= NATIVE_SIDECARS,
        )
        self.pod_template_dict = self._build(settings.template, plan)
        self.namespace = namespace
        request = self.build_pod_request_obj(context)
        keys = {"HPO_TOKEN": action.token or "", **pod_store_environment()}
        self._create_secret(secret, namespace, plan.labels, keys)
        try:
            pod = self.client.create_namespaced_pod(namespace, request)
        except ApiException as error:
            if error.status == 409:  # an earlier attempt has created it
                return self.client.read_namespaced_pod(plan.name, namespace)
            if error.status in (400, 403, 422):
                raise AirflowFailException(
                    f"Kubernetes refuses the pod: {error.body or error.reason}"
                ) from error
            raise
        self._give_to(pod, secret, namespace)
        self.log.info(
            "pod %s in %s, pool %s", pod.metadata.name, namespace, settings.resources.pool_name
        )
        return pod

    def _build(self, template: Spec, plan: SegmentPod) -> Spec:
        """Builds the pod of a segment after a check against the pod policy.

        Raises:
            AirflowFailException: The operator's current pod policy does not allow the pod.
        """
        refusals = judge_namespace(plan.pod.namespace, plan.policy, own=self._own_namespace())
        try:
            if refusals:
                raise PodRefusedError(refusals)
            return build_pod(template, plan)
        except PodRefusedError as error:
            raise AirflowFailException(str(error)) from error

    def _create_secret(
        self, name: str, namespace: str, labels: Mapping[str, str], values: Mapping[str, str]
    ) -> None:
        body = kubernetes.V1Secret(
            metadata=kubernetes.V1ObjectMeta(name=name, labels=dict(labels)),
            string_data=dict(values),
        )
        try:
            self.client.create_namespaced_secret(namespace, body)
        except ApiException as error:
            if error.status != 409:
                raise
            self.client.replace_namespaced_secret(name, namespace, body)

    def _give_to(self, pod: kubernetes.V1Pod, secret: str, namespace: str) -> None:
        """Makes a pod the owner of its secret, so that Kubernetes deletes both together."""
        owner = kubernetes.V1OwnerReference(
            api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid
        )
        patch = {"metadata": {"ownerReferences": [owner]}}
        self.client.patch_namespaced_secret(secret, namespace, patch)

    @cached_property
    def server_version(self) -> tuple[int, int]:
        """Major and minor version of the cluster's Kubernetes."""
        return read_server_version(self.client)


def read_server_version(api: kubernetes.CoreV1Api) -> tuple[int, int]:
    """Returns the major and minor version of a cluster's Kubernetes.

    A plus sign that some cloud providers append to the minor version, as in `34+`, is ignored.
    """
    found = kubernetes.VersionApi(api.api_client).get_code()
    digits = "".join(filter(str.isdigit, found.minor))
    return int(found.major), int(digits)


@dataclass(frozen=True)
class PodSettings:
    """The resources, images and template for the pod of a trial's next segment.

    They may differ from the study's settings if earlier segments of the trial were preempted or
    ran out of memory.
    """

    resources: Resources
    pod: Pod
    image: str
    agent_image: str
    template: Spec

    @classmethod
    def of(cls, config: StudyConfig, action: NextAction) -> PodSettings:
        resources, pod = config.resources, config.pod
        is_spot = resources.pool_name == "spot"
        if is_spot and action.preemptions >= pod.on_demand_after:
            resources = resources.model_copy(update={"pool": pod.on_demand_pool})
            pod = pod.model_copy(update={"template": None})
        if action.ooms:
            steps = [resources.memory, *resources.memory_on_oom]
            memory = steps[min(action.ooms, len(steps) - 1)]
            resources = resources.model_copy(update={"memory": memory})
        resources = resources.scaled(assigned(action).resources.get("units", 1.0))
        return cls(
            resources,
            pod,
            image=config.image or training_image(os.environ),
            agent_image=agent_image(os.environ),
            template=read_template(resources, pod),
        )
