module octavo.dev/onenode/prometheus-operator

go 1.26.0

// Read, not built: its definitions of PodMonitor and PrometheusRule.
require github.com/prometheus-operator/prometheus-operator v0.85.0
