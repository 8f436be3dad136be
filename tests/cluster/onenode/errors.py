"""The one error of the one-node cluster: a sentence with what is wrong and the remedy."""

NAME_A_CLUSTER = "or name a cluster with OCTAVO_KUBECONFIG and OCTAVO_CONTEXT (and REGISTRY)"


class OneNodeError(Exception):
    """The cluster cannot be started, used or ended; the text goes to the user as it is."""


class CannotRunHereError(OneNodeError):
    """This machine cannot hold a one-node cluster at all (not Linux, not root, …): tests skip aloud, commands fail."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no one-node cluster here: {reason}, {NAME_A_CLUSTER}")
