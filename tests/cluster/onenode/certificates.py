"""The cluster's certificates and kubeconfigs: one authority, made anew for each life of the cluster."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.cluster.onenode import layout

LIFETIME = datetime.timedelta(days=365)
SERVER_URL = f"https://{layout.NODE_IP}:{layout.API_SERVER_PORT}"


@dataclass(frozen=True)
class Identity:
    """Whom a certificate speaks for; `organization` is the Kubernetes group."""

    file: str
    common_name: str
    organization: str | None = None
    hosts: tuple[str, ...] = ()


CLIENTS = (
    Identity("admin", "octavo-admin", "system:masters"),
    Identity("controller-manager", "system:kube-controller-manager"),
    Identity("scheduler", "system:kube-scheduler"),
    Identity("proxy", "system:kube-proxy"),
    Identity("dns", "octavo-dns"),
    Identity("kubelet", f"system:node:{layout.NODE_NAME}", "system:nodes", (layout.NODE_NAME, layout.NODE_IP)),
    Identity("kubelet-client", "octavo-api-server", "system:masters"),
)
API_SERVER = Identity(
    "apiserver",
    "kube-apiserver",
    hosts=(
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "127.0.0.1",
        layout.NODE_IP,
        layout.FIRST_SERVICE_IP,
    ),
)


# By this the API server shows to aggregated APIs (custom and external metrics) that it speaks for whom it says.
FRONT_PROXY = Identity("front-proxy", "front-proxy-client")


def write_all(folder: Path) -> None:
    """Writes `<file>.crt`, `<file>.key` for all identities, `ca.*`, the service-account keys, `<client>.kubeconfig`."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = Authority()
    _write(folder / "ca", authority.certificate, authority.key)
    for identity in (API_SERVER, FRONT_PROXY, *CLIENTS):
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / identity.file, authority.sign(identity, key), key)
    for client in CLIENTS:
        _write_kubeconfig(folder, client.file)
    accounts = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / "service-accounts.key", accounts)
    public = accounts.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "service-accounts.pub").write_bytes(public)


def write_serving(folder: Path, *hosts: str) -> bytes:
    """Writes `tls.crt` and `tls.key` for a server of those names, by an authority made for it; returns the authority as PEM."""
    authority, key = Authority(), ec.generate_private_key(ec.SECP256R1())
    _write(folder / "tls", authority.sign(Identity("tls", hosts[0], hosts=hosts), key), key)
    return authority.certificate.public_bytes(serialization.Encoding.PEM)


class Authority:
    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("octavo-onenode", None)
        self.certificate = (
            self._builder(self._name, self.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_authority_usage(), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def sign(self, identity: Identity, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = self._builder(_name(identity.common_name, identity.organization), key)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if identity.hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in identity.hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + LIFETIME)
        )


def _authority_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, organization: str | None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    stem.with_suffix(".crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(stem.with_suffix(".key"), key)


def _write_key(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    file.touch(mode=0o600)
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def _write_kubeconfig(folder: Path, client: str) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": layout.CONTEXT, "cluster": {"server": SERVER_URL, "certificate-authority": str(folder / "ca.crt")}}
        ],
        "users": [
            {
                "name": client,
                "user": {
                    "client-certificate": str(folder / f"{client}.crt"),
                    "client-key": str(folder / f"{client}.key"),
                },
            }
        ],
        "contexts": [{"name": layout.CONTEXT, "context": {"cluster": layout.CONTEXT, "user": client}}],
        "current-context": layout.CONTEXT,
    }
    file = folder / f"{client}.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(config))
