"""The machine's own settings for packages (indexes, proxies, certificates), handed to a build as secrets that no image keeps.

Only what a package client in a container can use is passed on: no paths of this machine, no choice of environment or interpreter.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

#: Where the Dockerfile's steps find the certificates.
CA_IN_BUILD = "/run/secrets/ca"
_CA_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_DEBIAN_CA = Path("/etc/ssl/certs/ca-certificates.crt")
_PASSED = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT|TIMEOUT|RETRIES|PROXY)"
    r"|UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|INDEX_\w+_(USERNAME|PASSWORD)|INDEX_STRATEGY|INSECURE_HOST"
    r"|HTTP_TIMEOUT|HTTP_CONNECT_TIMEOUT|HTTP_RETRIES)"
    r"|(http|https|all|no)_proxy|(HTTP|HTTPS|ALL|NO)_PROXY"
)


def ca_bundle(environ: Mapping[str, str], default: Path = _DEBIAN_CA) -> Path | None:
    """The certificates that this machine trusts: what a variable names, else Debian's bundle, else None."""
    named = (Path(environ[name]) for name in _CA_VARIABLES if environ.get(name))
    return next((path for path in (*named, default) if path.is_file()), None)


def exports(environ: Mapping[str, str], *, with_ca: bool) -> str:
    """The settings as lines of shell."""
    passed = {name: value for name, value in environ.items() if value and _PASSED.fullmatch(name)}
    # Of pip and uv, which do not read each other's variable, either may be the one that is set up.
    index = passed.get("UV_DEFAULT_INDEX") or passed.get("UV_INDEX_URL") or passed.get("PIP_INDEX_URL")
    if index:
        passed = {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index, **passed}
    if with_ca:
        passed.update(dict.fromkeys(_CA_VARIABLES, CA_IN_BUILD))
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(passed.items()))


@contextmanager
def secret_options(environ: Mapping[str, str]) -> Iterator[list[str]]:
    """The `--secret` options of docker and buildah; the files that they name last as long as the context."""
    with TemporaryDirectory(prefix="octavo-images-") as folder:
        ca = ca_bundle(environ)
        machine = Path(folder) / "machine"
        machine.write_text(exports(environ, with_ca=ca is not None))
        options = [f"--secret=id=machine,src={machine}"]
        yield [*options, f"--secret=id=ca,src={ca}"] if ca else options
