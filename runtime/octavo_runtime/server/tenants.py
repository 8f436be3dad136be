"""Who may share cached prefixes with whom: a request's tenant and its own `cache_salt` as the salt of its prefix hashes.

How fast a prompt is answered tells whether its prefix was cached, and so what others have asked. Requests with different salts
never share pages. The salt is keyed with a secret, so that no client can compute another's, and the tenant comes from a header
that a trusted proxy sets, for what a client says of itself is no border.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from octavo_runtime.config import ConfigError, ServeConfig

RANDOM_SECRET_BYTES = 32
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110


class Tenants:
    """Salts for the requests of one server. `header` None: all are one tenant."""

    def __init__(self, header: str | None, secret: bytes) -> None:
        self.header = header
        self._secret = secret

    @classmethod
    def of(cls, config: ServeConfig) -> "Tenants":
        """Raises ConfigError for a header that cannot be and for a secret that cannot be read or is empty."""
        if config.tenant_header is not None and not _HEADER_NAME.fullmatch(config.tenant_header):
            raise ConfigError(
                f"--tenant-header '{config.tenant_header}' is not a header's name: give one such as X-Tenant"
            )
        return cls(config.tenant_header, _secret(config.tenant_secret_file))

    def salt(self, header_values: Sequence[str], cache_salt: str | None) -> bytes:
        """32 bytes, or none for a request that names neither a tenant nor a salt.

        `header_values`: every value that came under `header`. Several are a tenant of their own: a client that adds a value to
        the proxy's does not become somebody else.
        """
        if not header_values and cache_salt is None:
            return b""
        named = _tagged(header_values) + _tagged([] if cache_salt is None else [cache_salt])
        return hmac.digest(self._secret, named, hashlib.sha256)


def _tagged(values: Sequence[str]) -> bytes:
    """Number and lengths before the bytes, so that (a, bc) and (ab, c), or no value and an empty one, stay apart."""
    encoded = [value.encode() for value in values]
    return _count(encoded) + b"".join(_count(one) + one for one in encoded)


def _count(of: Sequence[object]) -> bytes:
    return len(of).to_bytes(8, "big")


def _secret(path: str | None) -> bytes:
    if path is None:
        return secrets.token_bytes(RANDOM_SECRET_BYTES)
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"--tenant-secret-file {path} cannot be read: {error.strerror}") from error
    if not secret:
        raise ConfigError(f"--tenant-secret-file {path} is empty: write the secret into it or leave the flag out")
    return secret
