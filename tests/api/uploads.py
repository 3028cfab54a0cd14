"""Tables that tests upload."""

import io

PEOPLE = b"age,smokes,city\n61,yes,Bonn\n34,no,\n47,no,Rome\n"
PARQUET = "application/vnd.apache.parquet"


def send(client, body, media_type="text/csv", **options):
    headers = {"content-type": media_type} | options.pop("headers", {})
    return client.post("/v1/datasets", content=body, headers=headers, **options)


def as_parquet(frame):
    file = io.BytesIO()
    frame.to_parquet(file)
    return file.getvalue()
