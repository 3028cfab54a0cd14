"""`Router`: routes that check the token of a request before they read its body, which they read strictly.

`run_while_connected` cancels the work for clients that are gone.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from scheduler.api.dependencies import CallerDependency, api_state, authorize

READING = {"GET", "HEAD"}  # methods of requests that write nothing
Result = TypeVar("Result")


class StrictRequest(Request):
    """A request whose body is JSON as the standard has it: without unpaired surrogates, which no text can contain."""

    async def json(self) -> Any:
        """Return the body; FastAPI calls this."""
        try:
            return from_json(await self.body())
        except ValueError as error:
            raise HTTPException(422, f"The body is not valid JSON: {error}.") from None


class AuthorizedRoute(APIRoute):
    """FastAPI reads the body of a request before it calls dependencies; this checks the token before both.

    After a request that may have written, the next one reads the ledger again.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests to this route."""
        handle = super().get_route_handler()
        scopes = list(_required_scopes(self.dependant))

        async def handle_authorized(request: Request) -> Response:
            for scope in scopes:
                await authorize(request, scope)
            try:
                return await handle(StrictRequest(request.scope, request.receive))
            finally:
                if request.method not in READING:  # before the response is sent, also if only a part was done
                    api_state(request).forget()

        return handle_authorized


class Router(APIRouter):
    """A router of such routes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=AuthorizedRoute, **options)


async def run_while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`, which is cancelled if the client closes the connection before that.

    The body of the request must have been read.
    """
    task, disconnect = asyncio.create_task(work), asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for each in (task, disconnect):
            each.cancel()
        await asyncio.gather(task, disconnect, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _required_scopes(dependant: Dependant) -> Iterator[str]:
    for dependency in dependant.dependencies:
        if isinstance(dependency.call, CallerDependency):
            yield dependency.call.scope
        yield from _required_scopes(dependency)
