"""The admission webhook over real TLS: what it answers, and certificates that are renewed under it."""

import asyncio
import datetime
import json
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from octavo_operator import advice, options, webhook
from octavo_operator.service import Key
from tests.operator.samples import IMAGE, body


def write_certificate(folder: Path, name: str) -> None:
    """A certificate of its own authority for 127.0.0.1, as a Secret of type kubernetes.io/tls is mounted."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "tls.key").write_bytes(secret)
    (folder / "tls.crt").write_bytes(certificate.public_bytes(pem))


def review(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u1", "kind": {"kind": "InferenceService"}, "oldObject": old, "object": new},
    }


def running(key: Key) -> advice.Running:
    assert key == Key("demo", "chat")
    return advice.Running(2, 50.0)


def answered(folder: Path, story: Callable[[str, aiohttp.ClientSession], Coroutine[Any, Any, None]]) -> None:
    """Runs the story with the webhook's URL and a client that trusts whatever it shows."""

    async def run() -> None:
        async with (
            webhook.served(options.Webhook(0, folder), running, IMAGE) as port,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
        ):
            await story(f"https://127.0.0.1:{port}{webhook.PATH}", session)

    write_certificate(folder, "first")
    asyncio.run(run())


def test_allows_with_a_warning(tmp_path: Path) -> None:
    async def story(url: str, session: aiohttp.ClientSession) -> None:
        async with session.post(url, json=review(body(), body(runtime={"blockSize": 16}))) as found:
            assert await found.json() == {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {"uid": "u1", "allowed": True, "warnings": ["restarts 1 pod, about 1 min"]},
            }

    answered(tmp_path, story)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(review(body(), body()), id="nothing changes"),
        pytest.param(review(None, body()), id="a new object"),
        pytest.param(review(body(), None), id="an object that is deleted"),
    ],
)
def test_allows_without_a_word(tmp_path: Path, asked: dict[str, Any]) -> None:
    async def story(url: str, session: aiohttp.ClientSession) -> None:
        async with session.post(url, json=asked) as found:
            assert (await found.json())["response"] == {"uid": "u1", "allowed": True}

    answered(tmp_path, story)


@pytest.mark.parametrize("sent", ["", "[]", "{}", json.dumps({"request": None}), "nothing"])
def test_refuses_what_is_no_review(tmp_path: Path, sent: str) -> None:
    async def story(url: str, session: aiohttp.ClientSession) -> None:
        async with session.post(url, data=sent) as found:
            assert found.status == 400

    answered(tmp_path, story)


def test_new_connections_use_a_renewed_certificate(tmp_path: Path) -> None:
    def shown(port: int) -> bytes:
        return ssl.get_server_certificate(("127.0.0.1", port)).encode()

    write_certificate(tmp_path, "first")
    certificate = webhook.Certificate(tmp_path)
    assert not certificate.renew()

    async def story() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=certificate.context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            before = await asyncio.to_thread(shown, port)
            write_certificate(tmp_path, "second")
            assert certificate.renew()
            assert await asyncio.to_thread(shown, port) == (tmp_path / "tls.crt").read_bytes() != before

    asyncio.run(story())


def test_a_certificate_that_is_half_written_leaves_the_earlier_one(tmp_path: Path) -> None:
    write_certificate(tmp_path, "first")
    certificate = webhook.Certificate(tmp_path)
    (tmp_path / "tls.crt").write_text("-----BEGIN")
    with pytest.raises(OSError, match="PEM"):
        certificate.renew()
    write_certificate(tmp_path, "second")
    assert certificate.renew()
