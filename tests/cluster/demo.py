"""`make demo`: from nothing to a streamed answer, as a user would do it, and all down again.

Cluster, images, `helm install`, `kubectl apply -f crds/examples/smollm2.yaml`, wait for Ready, one streamed chat answer, what
the object and the metrics show. Runs until Ctrl-C; with `ONCE=1` it ends by itself, with exit code 0 only if all of it happened.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import openai
import yaml

from tests.cluster import evidence, installation
from tests.cluster.access import AccessError, resolve
from tests.cluster.conversation import Answer, ask, metrics, port_forward
from tests.cluster.images.errors import ImagesError
from tests.cluster.kubectl import CommandError, Kubectl, condition
from tests.cluster.onenode.errors import OneNodeError
from tests.cluster.onenode.progress import Ticker
from tests.cluster.session import session
from tests.cluster.waiting import what_it_waits_for

EXAMPLE = installation.REPOSITORY / "crds" / "examples" / "smollm2.yaml"
NAMESPACE = "octavo-demo"
KIND = "inferenceservices.serving.octavo.dev"
READY_LIMIT_S = 900.0
QUESTION = "What is paper made of? Answer in one sentence."
SHOWN_METRICS = (
    "octavo_kv_block_utilization",
    "octavo_batch_size_count",
    "octavo_batch_size_sum",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:generation_tokens_total",
)


class DemoError(Exception):
    """A step of the demo came to an end, and not to the one it should."""


FAILURES = (
    AccessError,
    CommandError,
    DemoError,
    ImagesError,
    OneNodeError,
    OSError,
    TimeoutError,
    openai.OpenAIError,
    subprocess.SubprocessError,
)


def main() -> int:
    once = os.environ.get("ONCE", "") not in ("", "0")
    # Ctrl-C and an orderly kill take the same way out, so that all comes down.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        last_line = demo(once=once)
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr, flush=True)
        return 130
    except FAILURES as error:
        print(f"demo: failed: {error}", file=sys.stderr, flush=True)
        return 1
    print(last_line, flush=True)
    return 0


def demo(*, once: bool) -> str:
    """The whole of it; returns the line that sums it up once everything is down again."""
    access = resolve(os.environ)
    kubectl = Kubectl(access)
    with session(access):
        if access.is_foreign:
            installation.check_foreign(kubectl)
        images = installation.ensure_images(access)
        print(_references(images), flush=True)
        namespace = access.operator_namespace if access.is_foreign else NAMESPACE
        with _installed(kubectl, images), _kept_on_failure(kubectl, namespace):
            ready_s, answer = _serve(kubectl.within(namespace))
            if not once:
                _wait_for_interrupt(kubectl.within(namespace))
    return f"demo: ready in {ready_s:.1f} s, first token in {answer.first_token_s:.2f} s, {answer.tokens} tokens"


def _references(images: installation.Images) -> str:
    """As `helm install` takes them in this cluster."""
    return f"demo: --set operator.image={images.operator} --set runtime.image={images.runtime_demo}"


@contextmanager
def _installed(kubectl: Kubectl, images: installation.Images) -> Iterator[None]:
    try:
        with Ticker("installing the chart with helm", sys.stdout):
            installation.install(kubectl, images)
        yield
    finally:
        with Ticker("uninstalling the chart", sys.stdout):
            installation.uninstall(kubectl)


@contextmanager
def _kept_on_failure(kubectl: Kubectl, namespace: str) -> Iterator[None]:
    """Makes the demo's namespace and removes it; what failed in it is kept before."""
    installation.ensure_namespace(kubectl, namespace)
    try:
        yield
    except Exception:
        folder = evidence.keep(kubectl, "demo", {namespace, kubectl.access.operator_namespace})
        print(f"\ndemo: pod logs, events and component logs are in {folder}", file=sys.stderr, flush=True)
        raise
    finally:
        with Ticker("deleting the service", sys.stdout):
            kubectl.within(namespace).run("delete", KIND, "--all", "--cascade=foreground", timeout_s=120.0)
            if not kubectl.access.is_foreign:
                kubectl.delete("namespace", namespace, timeout_s=120.0)


def _serve(kubectl: Kubectl) -> tuple[float, Answer]:
    """Applies the example, waits for Ready, asks; returns the seconds to Ready and the answer."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    name = manifest["metadata"]["name"]
    print(f"$ kubectl apply -f {EXAMPLE.relative_to(installation.REPOSITORY)}", flush=True)
    start_s = time.monotonic()
    print(kubectl.run("apply", f"--filename={EXAMPLE}").strip(), flush=True)
    _wait_until_ready(kubectl, name)
    ready_s = time.monotonic() - start_s
    served_name = manifest["spec"]["model"].get("servedName", name)
    with port_forward(kubectl, f"service/{name}", 80) as url:
        print(f"\n> {QUESTION}\n", flush=True)
        answer = ask(url, served_name, QUESTION, lambda text: print(text, end="", flush=True))
        print("\n\n$ kubectl get oisvc", flush=True)
        print(kubectl.run("get", "oisvc"), flush=True)
        print("\n".join(metrics(url, SHOWN_METRICS)), flush=True)
    if not answer.text or answer.tokens == 0:
        raise DemoError("the answer held no text")
    return ready_s, answer


def _wait_until_ready(kubectl: Kubectl, name: str) -> None:
    deadline_s = time.monotonic() + READY_LIMIT_S
    with Ticker(f"waiting for {name} to be Ready", sys.stdout) as ticker:
        while True:
            service = kubectl.get(KIND, name)
            if condition(service, "Ready").get("status") == "True":
                return
            ticker.detail = what_it_waits_for(service)
            if condition(service, "Stalled").get("status") == "True":
                raise DemoError(f"{name} is Stalled: {condition(service, 'Stalled').get('message')}")
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{name} was not Ready within {READY_LIMIT_S:.0f} s: {ticker.detail}")
            time.sleep(0.5)


def _wait_for_interrupt(kubectl: Kubectl) -> None:
    print(f"\nUp until Ctrl-C. To look around:\n  {' '.join(kubectl.words('get', 'oisvc,pods'))}", flush=True)
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
