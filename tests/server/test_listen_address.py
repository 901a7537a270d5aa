"""Where a server listens, and who may call it what."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from pilothouse.errors import ServerError
from pilothouse.server.listen_address import address_of, bind, check_exposure, hosts_of, is_loopback
from pilothouse.server.probe import tls_context
from pilothouse.settings import Settings, load
from tests.support.certificates import certificate


def settings(**flags: Any) -> Settings:
    return load(env={"HOME": "/nobody"}, flags=flags)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
def test_loopback_needs_nothing(host: str) -> None:
    assert is_loopback(host)
    check_exposure(settings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.com", "localhost.evil"])
def test_any_other_host_needs_tls_or_the_word(host: str, tmp_path: Path) -> None:
    assert not is_loopback(host)
    with pytest.raises(ServerError, match=r"--tls-cert and --tls-key, or --insecure"):
        check_exposure(settings(host=host))
    check_exposure(settings(host=host, insecure=True))
    check_exposure(settings(host=host, tls_cert=str(certificate(tmp_path))))


def test_tls_files_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="is no file"):
        check_exposure(settings(tls_cert=str(tmp_path / "cert.pem")))
    with pytest.raises(ServerError, match="without tls_cert"):
        check_exposure(settings(tls_key=str(tmp_path / "key.pem")))


def test_a_certificate_without_a_key_or_without_sense_is_refused(tmp_path: Path) -> None:
    path = certificate(tmp_path)
    path.write_text(path.read_text().partition("-----BEGIN CERT")[2])
    for content in (path.read_text(), "", "-----BEGIN CERTIFICATE-----\nno\n"):
        path.write_text(content)
        with pytest.raises(ServerError, match=r"cannot be used: .*; set tls_cert and tls_key"):
            check_exposure(settings(tls_cert=str(path)))


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_to_trust_must_be_one(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "cert.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ServerError, match=r"as a certificate: .*; set tls_cert to a PEM file"):
        tls_context(path)


def test_a_port_in_use_is_one_line_with_the_next_step() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerError) as refused:
            bind("127.0.0.1", port)
    assert f"port {port} on 127.0.0.1 is used by another program" in str(refused.value)
    assert f"pilothouse serve --port {port + 1}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_host_of_another_machine_is_refused() -> None:
    with pytest.raises(ServerError, match="no address of this machine"):
        bind("192.0.2.1", 0)


def test_a_socket_is_not_inherited() -> None:
    with bind("127.0.0.1", 0) as listener:
        assert not listener.get_inheritable()


@pytest.mark.parametrize(
    ("host", "told"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")]
)
def test_the_address_is_one_that_this_machine_reaches(host: str, told: str) -> None:
    with bind(host, 0) as listener:
        port = listener.getsockname()[1]
        assert address_of(listener, tls=False) == f"http://{told}:{port}"
        assert address_of(listener, tls=True) == f"https://{told}:{port}"


def test_only_its_own_names_are_accepted() -> None:
    assert hosts_of(settings()) == ["127.0.0.1", "localhost", "[::1]"]
    assert "pilot.example" in hosts_of(settings(hosts=["pilot.example"]))
    named = hosts_of(settings(host="192.168.1.2", insecure=True))
    assert "[2001:db8::1]" in hosts_of(settings(host="2001:db8::1"))
    assert {"192.168.1.2", socket.gethostname(), "localhost"} <= set(named)
