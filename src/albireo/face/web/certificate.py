"""The page's own certificate: made once, kept with the data of the node, known by its fingerprint.

DATA/web/NAME.pem     private key and certificate, 0600
"""

import contextlib
import datetime
import ipaddress
import os
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAYS: Final = 3_650


def own_certificate(directory: Path, name: str, hosts: Iterable[str]) -> Path:
    """The file with key and certificate of this face; made if it is not there.

    Args:
        hosts: names and addresses at which browsers find the page.
    Raises:
        OSError: it can't be kept there.
    """
    file = directory / f"{name}.pem"
    with contextlib.suppress(OSError, ValueError):  # It is not there, or half of it is since a loss of power.
        fingerprint_of(file)
        return file
    directory.mkdir(mode=0o700, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"albireo {name}"[:64])])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([_named(one) for one in dict.fromkeys(hosts)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(text)
    draft.rename(file)
    return file


def fingerprint_of(file: Path) -> str:
    """SHA-256 of the first certificate of a PEM file, as browsers show it: AB:CD:...

    Raises:
        OSError: it can't be read.
        ValueError: there is no certificate in it.
    """
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def secured(file: Path, key_file: Path) -> ssl.SSLContext:
    """Context of a server that speaks TLS 1.2 or newer. Raises OSError: the files do not fit."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(file, key_file)
    return context


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
