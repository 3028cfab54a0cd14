"""Tokens and webhook secrets never appear in logs, responses, Redis or files, except as hashes."""

import httpx
import redis

from maabo_dist.data.bundled import load_bundled
from scheduler.resources import Resources
from tests import servers
from tests.api_data import stored_table, token_for

SECRET = "a-secret-of-a-webhook"


def test_no_token_or_secret_is_stored_or_logged(settings, tmp_path):
    resources = Resources.connect(settings)
    frame, table_settings = load_bundled("diabetes")
    table = stored_table(resources, tmp_path, frame)
    header = token_for(resources, scopes=("submit", "admin"))["Authorization"]
    resources.close()
    document = {
        "dataset": table.id,
        "table": table_settings.model_dump(mode="json", exclude_unset=True),
        "settings": {"trees": 10},
        "callback": {"url": "https://example.org/hook", "secret": SECRET},
    }
    with (
        servers.http_server(settings, tmp_path, MAABO_LOG="json") as url,
        httpx.Client(base_url=url, headers={"Authorization": header}, timeout=30) as client,
    ):
        token = client.post("/v1/tokens", json={"scopes": ["read"]}).json()["token"]
        responses = [
            client.post("/v1/jobs", json=document),
            client.post("/v1/jobs", json=document | {"callback": {"url": "http://10.0.0.1/", "secret": SECRET}}),
            client.post("/v1/jobs", json=document | {"callback": {"url": "nowhere", "secret": SECRET}}),
            client.get("/v1/jobs", headers={"Authorization": f"Bearer {token}"}),
            client.post("/v1/jobs", json=document, headers={"Authorization": f"Bearer {token}"}),
            client.get("/v1/jobs", headers={"Authorization": f"Bearer {token}x"}),
            client.get("/v1/jobs", headers={"Authorization": f"Basic {token}"}),
            client.get("/v1/tokens"),
            client.get("/v1/nothing"),
        ]

    assert [response.status_code for response in responses] == [202, 422, 422, 200, 403, 401, 401, 200, 404]
    secrets = [header.split("_", 2)[2], token.split("_", 2)[2]]
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert files["http.log"].count(b"POST '/v1/jobs'") == 4
    for secret in secrets:
        assert [name for name, content in files.items() if secret.encode() in content] == []
    assert SECRET.encode() not in files["http.log"]
    output = "".join(response.text for response in responses) + _everything_in_redis(settings)
    assert not any(secret in output for secret in (*secrets, SECRET))


def _everything_in_redis(settings):
    with redis.Redis.from_url(settings.redis_url) as client:
        return "".join(str(client.dump(key)) for key in client.scan_iter(match=f"{settings.prefix}*"))
