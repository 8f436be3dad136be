"""containerd with its own root, state and socket, the pause image, and the containers that a crash leaves behind."""

import io
import json
import platform
import shutil
import tarfile
from hashlib import sha256
from pathlib import Path

from tests.cluster.onenode import binaries, layout, network, processes
from tests.cluster.onenode.control_plane import wait_until
from tests.cluster.onenode.machine import CNI_PLUGINS, child_environ, run
from tests.cluster.onenode.processes import Processes, Record

PAUSE_IMAGE = "octavo.local/pause:1"
REGISTRIES = layout.STATE / "registries"
SHIM = "containerd-shim-runc-v2"


def start(running: Processes) -> None:
    """Starts containerd, forgets containers of a life before, and loads the pause image."""
    layout.CONTAINERD_SOCKET.parent.mkdir(parents=True, exist_ok=True)
    config = layout.STATE / "containerd.toml"
    config.write_text(configuration())
    plain_http = REGISTRIES / layout.REGISTRY / "hosts.toml"
    plain_http.parent.mkdir(parents=True, exist_ok=True)
    plain_http.write_text(f'server = "http://{layout.REGISTRY}"\n')
    program = binaries.path("containerd")
    environ = child_environ()
    # It looks for its shim on PATH.
    environ["PATH"] = f"{program.parent}:{environ['PATH']}"
    running.start("containerd", [program, f"--config={config}"], environ)
    wait_until(_answers, "containerd", running, ("containerd",), limit_s=60.0)
    _forget_containers()
    archive = layout.STATE / "pause.tar"
    archive.write_bytes(pause_archive(binaries.path("pause").read_bytes()))
    ctr("image", "import", "--local", str(archive))


def ctr(*words: str, check: bool = True) -> str:
    return run(binaries.path("ctr"), f"--address={layout.CONTAINERD_SOCKET}", "--namespace=k8s.io", *words, check=check)


def _answers() -> bool:
    return "Server" in ctr("version", check=False)


def _forget_containers() -> None:
    for what in ("containers", "sandboxes"):
        for line in ctr(what, "list").splitlines()[1:]:
            ctr(what, "remove", line.split()[0], check=False)


def configuration() -> str:
    return f"""\
version = 3
root = "{layout.CONTAINERD_ROOT}"
state = "{layout.CONTAINERD_STATE}"

[grpc]
address = "{layout.CONTAINERD_SOCKET}"

[ttrpc]
address = "{layout.CONTAINERD_SOCKET}.ttrpc"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "{REGISTRIES}"

[plugins.'io.containerd.cri.v1.runtime']
# A root without CAP_SYS_RESOURCE may not lower a score, and every sandbox would die in runc's clone.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "{layout.RUNC_ROOT}"

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{CNI_PLUGINS}"]
conf_dir = "{network.CNI_FOLDER}"

[plugins.'io.containerd.nri.v1.nri']
disable = true
"""


def kill_leftovers() -> None:
    """Ends shims and containers that outlive containerd; both are known by our own paths."""
    processes.stop(_shims(), grace_s=0.5)
    for container in sorted((layout.RUNC_ROOT / "k8s.io").glob("*")):
        run("runc", f"--root={layout.RUNC_ROOT / 'k8s.io'}", "delete", "--force", container.name, check=False)
    shutil.rmtree(layout.RUNC_ROOT, ignore_errors=True)


def _shims() -> list[Record]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if Path(words[0]).name == SHIM and str(layout.CONTAINERD_SOCKET) in words:
            record = processes.record_of(SHIM, int(file.parent.name), words[0])
            found += [record] if record else []
    return found


def pause_archive(program: bytes) -> bytes:
    """An OCI image archive that holds nothing but `program` as /pause."""
    layer = _tar({"pause": (program, 0o755)})
    config = {
        "architecture": _architecture(),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    config_blob = json.dumps(config).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _descriptor("application/vnd.oci.image.config.v1+json", config_blob),
        "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
    }
    manifest_blob = json.dumps(manifest).encode()
    entry = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest_blob)
    index = {
        "schemaVersion": 2,
        "manifests": [{**entry, "annotations": {"io.containerd.image.name": PAUSE_IMAGE}}],
    }
    files = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps(index).encode(),
        **{f"blobs/sha256/{sha256(blob).hexdigest()}": blob for blob in (layer, config_blob, manifest_blob)},
    }
    return _tar({name: (content, 0o644) for name, content in files.items()})


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{sha256(blob).hexdigest()}"


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()
