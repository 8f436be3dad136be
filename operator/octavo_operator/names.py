"""Names that the operator shares with the runtime, the chart and the world: API, labels, ports, paths.

`tests/contract` compares those that the runtime has too.
"""

GROUP = "serving.octavo.dev"
VERSION = "v1alpha1"
KIND = "InferenceService"
PLURAL = "inferenceservices"
API_VERSION = f"{GROUP}/{VERSION}"

FIELD_MANAGER = "octavo-operator"
# Holds the number of pods between the operator, which gives it up, and an autoscaler, which has not set one yet.
HANDOVER_MANAGER = "octavo-handover"

SERVICE_LABEL = f"{GROUP}/service"
# The same in Prometheus, whose labels have neither dots nor slashes.
SERVICE_SERIES_LABEL = "serving_octavo_dev_service"
SERVING_LABEL = f"{GROUP}/serving"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "octavo-operator"
RENDERER_ANNOTATION = f"{GROUP}/renderer"
DEFAULT_IMAGE_ANNOTATION = f"{GROUP}/default-image"
REVISION_ANNOTATION = f"{GROUP}/revision"
OPERATOR_NAME = "octavo-operator"
# Of pods that inspect a model: for which service, and a digest of what is inspected and how.
INSPECTS_LABEL = f"{GROUP}/inspects"
INSPECTION_LABEL = f"{GROUP}/inspection"
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
# The Deployment controller's, of a pod and its ReplicaSet.
TEMPLATE_HASH_LABEL = "pod-template-hash"
RUNTIME_CONTAINER = "runtime"

API_PORT = 8000
HEALTH_PORT = 8001
SERVICE_PORT = 80

RUN_DIR = "/run/octavo"
MODEL_DIR = "/mnt/model"
CACHE_DIR = "/var/cache/octavo"
DISK_TIER_DIR = "/var/cache/octavo-kv"
HUB_TOKEN_DIR = "/etc/octavo/hub-token"
API_KEYS_DIR = "/etc/octavo/api-keys"
WARMUP_DIR = "/etc/octavo/warmup"
WARMUP_FILE = "manifest.json"
RUNTIME_USER = 65532
DRAIN_SETTLE_S = 5
GRACE_BEYOND_DRAIN_S = 30

# The runtime's phases, and the steps of its memory ladder from level 1 on, as its `/state` names them.
PHASES = ("loading", "warming", "ready", "pressured", "draining", "stopped", "hung")
LADDER = ("strict_admission", "demote", "slow_intake", "preempt_ahead", "cap_length", "lossy", "refuse")
