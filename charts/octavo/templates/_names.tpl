{{- define "octavo.operator" -}}
{{ printf "%s-operator" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Cluster-wide objects carry the namespace too, so that a second release of the same name is not in their way. */}}
{{- define "octavo.clusterwide" -}}
{{ printf "%s-%s-operator" .Release.Namespace .Release.Name }}
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

{{/* What the operator may do to what it watches; in alphabetical order. */}}
{{- define "octavo.rules" -}}
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [services]
  verbs: [create, get, list, patch, watch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [create, get, list, patch, watch]
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
