"""The Celery configuration for brokers, and the secrets of their addresses."""

import ssl

import pytest

from maabo_dist.cluster.broker import celery_options, check_broker, make_celery
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.errors import SettingsError
from scheduler.resources import AmqpBroker, BrokerError
from tests import servers

SECRETS = ("redis-secret", "rabbit-secret", "ledger-secret")
WHOLE = ClusterSettings(
    redis_url="rediss://me:redis-secret@redis.example:6379/0?ssl_ca_certs=/ca.crt",
    broker_url="amqps://me:rabbit-secret@rabbit.example/jobs?ssl_ca_certs=/ca.crt",
    ledger_url="postgresql+pg8000://me:ledger-secret@host/maabo",
)


def test_redis_is_the_broker_unless_another_is_named():
    environment = {"MAABO_REDIS": "redis://host/1"}
    named = environment | {"MAABO_BROKER": "amqp://rabbit.example/jobs"}

    brokers = [ClusterSettings.from_environment(settings_) for settings_ in (environment, named)]
    assert [celery_options(settings_)["broker_url"] for settings_ in brokers] == [
        "redis://host/1",
        "amqp://rabbit.example/jobs",
    ]
    assert [ClusterSettings.from_environment(settings_.environment()) for settings_ in brokers] == brokers


@pytest.mark.parametrize("url", ["redis://me:rabbit-secret@host", "rabbit-secret", "http://me:rabbit-secret@host/"])
def test_another_kind_of_broker_is_rejected_without_its_secrets(url):
    with pytest.raises(SettingsError, match="MAABO_BROKER") as raised:
        ClusterSettings.from_environment({"MAABO_BROKER": url})

    assert "rabbit-secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["amqp://me:rabbit-secret@host/?heartbeat=1", "amqps://me:rabbit-secret@host/?ssl_cert_reqs=none"]
)
def test_unsupported_and_insecure_tls_options_are_rejected(url):
    with pytest.raises(SettingsError, match=r"MAABO_BROKER at amqps?://host/: ") as raised:
        celery_options(ClusterSettings(broker_url=url))

    assert "rabbit-secret" not in str(raised.value)


def test_certificates_are_verified_by_default():
    plain, named, off = (
        celery_options(ClusterSettings(redis_url=f"rediss://host:1/0{query}"))
        for query in ("", "?ssl_ca_certs=/ca.crt&db=3", "?ssl_cert_reqs=none&ssl_check_hostname=false")
    )

    assert plain["broker_use_ssl"] == {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    assert named["broker_use_ssl"] == {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_ca_certs": "/ca.crt"}
    assert named["broker_url"] == "rediss://host:1/0?db=3"
    assert off["broker_use_ssl"] == {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False}
    tls = {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": "/ca.crt", "server_hostname": "rabbit.example"}
    assert celery_options(WHOLE)["broker_use_ssl"] == tls


def test_settings_and_celery_do_not_show_passwords():
    app = make_celery(WHOLE)

    output = f"{WHOLE!r} {WHOLE} {app!r} {app.conf.humanize()} {app.conf.table(censored=True)} {app.connection()!r}"
    assert [secret for secret in SECRETS if secret in output] == []


def test_an_unreachable_rabbitmq_is_not_retried_for_a_while():
    now = [0.0]
    settings = ClusterSettings(broker_url=f"amqp://me:rabbit-secret@127.0.0.1:{servers.free_port()}//")
    celery = make_celery(settings)
    broker = AmqpBroker(settings, celery, clock=lambda: now[0])
    errors = []
    for now[0] in (0.0, 0.1, 5.0):
        with pytest.raises(BrokerError) as raised:
            broker.waiting(["maabo.evaluate"])
        errors.append((str(raised.value), raised.value.__cause__ is not None))

    assert [tried for _, tried in errors] == [True, False, True]
    assert "cannot be reached" in check_broker(settings, celery)
    assert all("RabbitMQ at amqp://127.0.0.1" in text and "rabbit-secret" not in text for text, _ in errors)
