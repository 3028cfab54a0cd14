"""The baseline of the HTTP benchmark: FastAPI on the same server, returning a constant."""

import socket
import sys

import uvicorn
from fastapi import FastAPI

app = FastAPI()


@app.get("/")
def constant() -> dict[str, str]:
    return {"state": "done"}


@app.post("/")
def accept(document: dict) -> dict[str, str]:
    return {"state": "queued"} if document else {"state": "empty"}


if __name__ == "__main__":
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", int(sys.argv[1])))
    uvicorn.Server(uvicorn.Config(app, access_log=False, log_config=None)).run(sockets=[sock])
