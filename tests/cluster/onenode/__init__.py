"""A real one-node Kubernetes on this machine: etcd, the control plane, containerd, kubelet and kube-proxy as processes of the host.

`python -m tests.cluster.onenode up|down|status|registry`. Linux and root only; everything is real but the GPUs, which are declared
capacity. `binaries` builds the programs once, `lifecycle` says in which order things start and end, the other modules hold one
part each. What is left after a crash is found again through the records of `processes` and cleaned by the next `up` or `down`.
"""
