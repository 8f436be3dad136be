"""The way to the API server: a kubeconfig, or what a pod is given."""

import dataclasses
from pathlib import Path

import yaml
from kubernetes.aio import config
from kubernetes.aio.client import Configuration


class AccessError(Exception):
    """There is no way to the API server, or it cannot be read."""


@dataclasses.dataclass(frozen=True)
class Access:
    """How the API server is reached: a kubeconfig's context, or as the pod that this runs in."""

    kubeconfig: Path | None = None
    context: str | None = None


async def configuration(access: Access) -> Configuration:
    """Address and credentials. Raises AccessError where there are none."""
    # No proxies of the environment: the watches know none either, and looking for them costs two threads' turns for each request.
    settings = Configuration(client_session_kwargs={"trust_env": False})
    if access.kubeconfig is None:
        try:
            config.load_incluster_config(client_configuration=settings)
        except config.ConfigException as error:
            raise AccessError(
                f"this is no pod of a cluster ({_brief(error)}): give --kubeconfig and --context to run outside of one"
            ) from error
        return settings
    try:
        access.kubeconfig.open().close()  # the client takes a missing file for an empty one
        await config.load_kube_config(
            config_file=str(access.kubeconfig),
            context=access.context,
            client_configuration=settings,
            persist_config=False,
        )
    # A file of another form makes the client fail in whatever way it happens to.
    except (config.ConfigException, yaml.YAMLError, OSError, LookupError, TypeError, ValueError) as error:
        raise AccessError(
            f"--kubeconfig {access.kubeconfig}, context {access.context}, cannot be used ({_brief(error)}): "
            f"give a kubeconfig that has the context, its cluster and its user"
        ) from error
    return settings


def _brief(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
