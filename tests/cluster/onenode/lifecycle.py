"""Up, down and status: in which order the cluster's parts start and end, and how a crash's leavings are cleared."""

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from tests.cluster.onenode import (
    binaries,
    certificates,
    containers,
    control_plane,
    dns,
    layout,
    machine,
    network,
    node,
    registry,
)
from tests.cluster.onenode.errors import OneNodeError
from tests.cluster.onenode.machine import run
from tests.cluster.onenode.processes import Processes
from tests.cluster.onenode.progress import Step, run_steps

PROCESSES = Processes(layout.RECORDS, layout.LOGS)
NAMES = (*node.NAMES, "containerd", *dns.NAMES, *control_plane.NAMES)
CONTAINER_LOG_LINKS = Path("/var/log/containers")


def up() -> bool:
    """Brings the cluster up and returns whether it had to; a healthy one is left as it is."""
    machine.check_supported()
    with _locked():
        if is_healthy():
            registry.ensure(PROCESSES)
            print(f"the one-node cluster is up already ({layout.KUBECONFIG})", flush=True)
            return False
        packages = machine.missing_packages()
        install = Step(f"installing Debian packages: {' '.join(packages)}", partial(machine.install_packages, packages))
        steps = [
            *([install] if packages else []),
            *binaries.build_steps(),
            Step("clearing what an earlier cluster left", _clear),
            Step("checking that addresses and ports are free", machine.check_nothing_foreign),
            Step("starting the registry", partial(registry.ensure, PROCESSES)),
            Step("starting the control plane", _start_control_plane),
            Step("starting the name server", partial(dns.start, PROCESSES)),
            Step("starting containerd", partial(containers.start, PROCESSES)),
            Step("starting the node", partial(node.start, PROCESSES)),
            Step(f"declaring {layout.GPU_COUNT} {layout.GPU_RESOURCE}", node.declare_gpus),
        ]
        run_steps(steps)
        print(
            f"the one-node cluster is up: Kubernetes {binaries.KUBERNETES_VERSION}, kubeconfig {layout.KUBECONFIG}",
            flush=True,
        )
        return True


def down(*, purge: bool = False) -> None:
    """Ends the cluster, or what is left of one; pulled images stay unless `purge`, built programs always."""
    machine.check_supported()
    with _locked():
        steps = [
            Step("deleting pods", _delete_pods),
            Step("ending all processes, unmounting, removing the network", partial(_clear, with_registry=True)),
        ]
        if purge:
            steps.append(Step("removing pulled and pushed images", _purge))
        run_steps(steps)


def ensure_registry() -> str:
    """Starts the registry where it does not run, without a cluster; returns its address."""
    machine.check_supported()
    with _locked():
        if packages := machine.missing_packages():
            print(f"installing Debian packages: {' '.join(packages)}", file=sys.stderr, flush=True)
            machine.install_packages(packages)
        registry.ensure(PROCESSES)
    return layout.REGISTRY


def is_healthy(processes: Processes = PROCESSES) -> bool:
    """Whether everything that `up` starts still runs, from the programs that it would start, and the node is Ready."""
    expected = {name: str(binaries.path(name)) for name in NAMES}
    running = {record.name: record.program for record in processes.all() if processes.running(record.name)}
    return expected.items() <= running.items() and control_plane.is_ready() and node.is_ready()


def _start_control_plane() -> None:
    network.configure()
    certificates.write_all(layout.CERTIFICATES)
    control_plane.start(PROCESSES)


def _delete_pods() -> None:
    """Asks the kubelet to end all pods, so that their containers do not outlive it; what is left is ended by force later."""
    if not PROCESSES.running("kube-apiserver") or not PROCESSES.running("kubelet"):
        return
    # Else they would make new pods meanwhile.
    PROCESSES.end("kube-controller-manager", "kube-scheduler")
    everything = ("--all", "--all-namespaces", "--grace-period=1", "--timeout=20s")
    # Without success (no kubectl in this cache folder, an API server that hangs) force is all that is left.
    with suppress(OneNodeError):
        control_plane.kubectl("delete", "pods", *everything, check=False, timeout_s=40.0)


def _clear(*, with_registry: bool = False) -> None:
    PROCESSES.end(*node.NAMES)
    PROCESSES.end("containerd", *dns.NAMES)
    containers.kill_leftovers()
    # In this order: an API server whose etcd went first spends its whole grace waiting for it.
    for name in control_plane.NAMES:
        PROCESSES.end(name)
    if with_registry:
        PROCESSES.end(registry.NAME)
    _unmount()
    network.remove()
    _remove_log_links()
    for folder in (layout.STATE, layout.LOGS / "pods", layout.CONTAINERD_SOCKET.parent, layout.RUN / "addresses"):
        shutil.rmtree(folder, ignore_errors=True)


def _unmount() -> None:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    ours = [
        point
        for point in points
        if point.startswith((f"{layout.RUN}/", f"{layout.STATE}/", f"{layout.CONTAINERD_ROOT}/"))
    ]
    for point in reversed(ours):
        run("umount", "--lazy", point, check=False)


def _remove_log_links() -> None:
    if not CONTAINER_LOG_LINKS.is_dir():
        return
    for link in CONTAINER_LOG_LINKS.iterdir():
        if link.is_symlink() and os.readlink(link).startswith(f"{layout.LOGS}/"):
            link.unlink()


def _purge() -> None:
    shutil.rmtree(layout.CONTAINERD_ROOT, ignore_errors=True)
    shutil.rmtree(layout.RUN, ignore_errors=True)
    shutil.rmtree(layout.cache_folder() / "registry", ignore_errors=True)


@contextmanager
def _locked() -> Iterator[None]:
    """One command at a time on the machine; the kernel frees the lock of one that crashed."""
    with layout.LOCK.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
