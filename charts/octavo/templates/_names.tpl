{{- define "octavo.operator" -}}
{{ printf "%s-operator" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Cluster-wide objects carry the namespace too, so that a second release of the same name is not in their way. */}}
{{- define "octavo.clusterwide" -}}
{{ printf "%s-%s-operator" .Release.Namespace .Release.Name }}
{{- end }}

{{/* A release's name may have dots, a Service's may not. */}}
{{- define "octavo.webhook" -}}
{{ printf "%s-webhook" (include "octavo.operator" . | replace "." "-" | trunc 55 | trimSuffix "-") }}
{{- end }}

{{- define "octavo.webhook.secret" -}}
{{- if .Values.webhook.certManager.enabled -}}
{{ include "octavo.webhook" . }}
{{- else -}}
{{ required "set webhook.existingSecret to a Secret with tls.crt and tls.key, or webhook.certManager.enabled where cert-manager is installed" .Values.webhook.existingSecret }}
{{- end -}}
{{- end }}

{{- define "octavo.selector" -}}
app.kubernetes.io/name: octavo-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "octavo.labels" -}}
{{ include "octavo.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "octavo.preload" -}}
{{ printf "%s-preload" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "octavo.preload.image" -}}
{{ required "set preload.image or runtime.image to the runtime's image, which preloads models" (.Values.preload.image | default .Values.runtime.image) }}
{{- end }}

{{- define "octavo.preload.selector" -}}
app.kubernetes.io/name: octavo-preload
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "octavo.preload.labels" -}}
{{ include "octavo.preload.selector" . }}
app.kubernetes.io/component: preload
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* What the operator may do to what it watches, in alphabetical order. `tests/contract` compares it with the kinds of its code. */}}
{{- define "octavo.rules" -}}
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
# Their deletion cost is patched. No pod is ever made or deleted.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, patch, watch]
- apiGroups: [""]
  resources: [services]
  verbs: [create, get, list, patch, watch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [create, get, list, patch, watch]
# Which pods are of the current template, while others are.
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [inference.networking.k8s.io]
  resources: [inferencepools]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors, prometheusrules]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, delete, get, list, patch, watch]
- apiGroups: [serving.octavo.dev]
  resources: [inferenceservices]
  verbs: [get, list, watch]
# Where the API server checks who may block an owner's deletion, ownerReferences need this. No finalizer is ever set.
- apiGroups: [serving.octavo.dev]
  resources: [inferenceservices/finalizers]
  verbs: [update]
- apiGroups: [serving.octavo.dev]
  resources: [inferenceservices/status]
  verbs: [patch]
{{- end }}
