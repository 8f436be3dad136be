"""`make chart`: makes the chart's copy of the CRD from `crds/`, and lints the chart where helm is built."""

import subprocess
import sys
from pathlib import Path

from tests.cluster.onenode import binaries

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "octavo"
SOURCE = REPOSITORY / "crds" / "inferenceservices.yaml"
COPY = CHART / "templates" / "crd.yaml"

_NAME = "  name: inferenceservices.serving.octavo.dev\n"
_KEEP = "  annotations:\n    helm.sh/resource-policy: keep\n"


def chart_crd(source: str) -> str:
    """The CRD as a chart's template: behind `crds.install`, kept when the release goes."""
    body = source[source.index("apiVersion:") :]
    assert body.count(_NAME) == 1, "the CRD's metadata.name stands once"
    assert "{{" not in body, "helm would read braces in the CRD as a template"
    head = "{{- /* Made from crds/inferenceservices.yaml by `make chart`. */}}\n{{- if .Values.crds.install }}\n"
    return f"{head}{body.replace(_NAME, _NAME + _KEEP)}{{{{- end }}}}\n"


def main() -> int:
    COPY.write_text(chart_crd(SOURCE.read_text()))
    print(f"chart: wrote {COPY.relative_to(REPOSITORY)}")
    helm = binaries.path("helm")
    if not helm.exists():
        print("chart: not linted, since helm is not built yet (`make cluster` builds it)")
        return 0
    values = ["--set", "operator.image=registry.example/octavo-operator:1"]
    return subprocess.run([helm, "lint", "--strict", CHART, *values], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
