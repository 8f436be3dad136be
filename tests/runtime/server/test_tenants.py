import itertools
from pathlib import Path

import pytest

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.server.tenants import Tenants

TENANTS = Tenants("X-Tenant", b"secret")


def test_who_names_neither_tenant_nor_salt_has_none() -> None:
    assert TENANTS.salt([], None) == b""


def test_salts_of_different_tenants_and_clients_differ() -> None:
    asked: list[tuple[list[str], str | None]] = [
        ([], None),
        ([], "a"),
        ([], "ab"),
        ([""], None),
        (["a"], None),
        (["b"], None),
        (["a"], "bc"),
        (["ab"], "c"),
        (["abc"], "a"),
        (["a", "b"], None),
        (["a, b"], None),
        (["a"], "b"),
        (["\x00"], None),
        (["é"], None),
    ]
    salts = [TENANTS.salt(values, salt) for values, salt in asked]
    same = [
        (asked[one], asked[two])
        for one, two in itertools.combinations(range(len(asked)), 2)
        if salts[one] == salts[two]
    ]
    assert same == []
    assert {len(salt) for salt in salts[1:]} == {32}


def test_the_same_request_has_the_same_salt_under_the_same_secret_only() -> None:
    again, other = Tenants("X-Tenant", b"secret"), Tenants("X-Tenant", b"other")
    assert TENANTS.salt(["a"], "b") == again.salt(["a"], "b") != other.salt(["a"], "b")


def test_the_secret_is_the_files_without_the_white_space_around_it(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b" secret\n")
    tenants = Tenants.of(ServeConfig(model="m", tenant_header="X-Tenant", tenant_secret_file=str(file)))
    assert tenants.header == "X-Tenant"
    assert tenants.salt(["a"], None) == TENANTS.salt(["a"], None)


def test_without_a_file_each_start_has_a_secret_of_its_own() -> None:
    first, second = (Tenants.of(ServeConfig(model="m")) for _ in range(2))
    assert first.header is None
    assert first.salt([], "a") != second.salt([], "a")


def test_an_empty_secret_is_refused_by_its_flag(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(" \n")
    with pytest.raises(ConfigError, match=r"--tenant-secret-file .*secret is empty: write the secret into it"):
        Tenants.of(ServeConfig(model="m", tenant_secret_file=str(file)))


def test_a_secret_that_went_away_is_refused_by_its_flag(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("secret")
    config = ServeConfig(model="m", tenant_secret_file=str(file))
    file.unlink()
    with pytest.raises(ConfigError, match=r"--tenant-secret-file .*secret cannot be read: No such file"):
        Tenants.of(config)


@pytest.mark.parametrize(
    "name", [pytest.param("", id="empty"), pytest.param("X Tenant", id="two words"), pytest.param("X:", id="colon")]
)
def test_a_header_that_cannot_be_is_refused_by_its_flag(name: str) -> None:
    with pytest.raises(ConfigError, match=r"--tenant-header '.*' is not a header's name"):
        Tenants.of(ServeConfig(model="m", tenant_header=name))
