"""Agents made with the Python SDK of A2A, for tests: one that echoes, one that is slow, one that asks for input, one
that needs an authorisation.

Prints the address at which it listens. The card of each agent is below `/NAME`; calls that were cancelled are listed
at `/cancelled`, and the messages that came at `/seen`. `/authorise` is the person who authorises all tasks.
"""

import asyncio
import socket

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

CANCELLED = []
SEEN = []
AUTHORISED = asyncio.Event()


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        SEEN.append({"message": context.message.message_id, "context": context.context_id})
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        await self.work(context, updater)

    async def cancel(self, context, event_queue):
        CANCELLED.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


class Echo(Agent):
    async def work(self, context, updater):
        text = context.get_user_input()
        if text == "fail":
            return await updater.failed(updater.new_agent_message([Part(text="It went wrong.")]))
        count = ParseDict({"words": len(text.split())}, Value())
        await updater.add_artifact([Part(text=f"You said: {text}"), Part(data=count)])
        await updater.complete()


class Slow(Agent):
    async def work(self, context, updater):
        await asyncio.sleep(1.5 if context.get_user_input() == "soon" else 3600)
        await updater.add_artifact([Part(text="At last.")])
        await updater.complete()


class Asker(Agent):
    async def work(self, context, updater):
        if context.current_task is None:
            return await updater.requires_input(updater.new_agent_message([Part(text="For how many people?")]))
        await updater.add_artifact([Part(text=f"A table for {context.get_user_input()}.")])
        await updater.complete()


class Guarded(Agent):
    async def work(self, context, updater):
        await updater.requires_auth(updater.new_agent_message([Part(text="Approve the letter.")]))
        await AUTHORISED.wait()
        await updater.add_artifact([Part(text="The letter is sent.")])
        await updater.complete()


async def authorise(request):
    AUTHORISED.set()
    return JSONResponse([])


def routes(base, name, description, executor, binding):
    url = f"{base}/{name}/a2a"
    card = AgentCard(
        name=f"{name.capitalize()} Agent",
        description=description,
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id=name, name=name, description=description, tags=["test"])],
    )
    handler = DefaultRequestHandler(agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card)
    made = create_agent_card_routes(card, card_url=f"/{name}/.well-known/agent-card.json")
    if binding == "JSONRPC":
        return made + create_jsonrpc_routes(handler, f"/{name}/a2a")
    # Tenants would take the paths of the other agents.
    rest = create_rest_routes(handler, path_prefix=f"/{name}/a2a")
    return made + [route for route in rest if not isinstance(route, Mount)]


def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    everything = [
        Route("/cancelled", lambda request: JSONResponse(CANCELLED)),
        Route("/authorise", authorise),
        Route("/seen", lambda request: JSONResponse(SEEN)),
        *routes(base, "echo", "Repeats what it is told.", Echo(), "JSONRPC"),
        *routes(base, "repeater", "Repeats what it is told.", Echo(), "HTTP+JSON"),
        *routes(base, "slow", "Takes its time.", Slow(), "JSONRPC"),
        *routes(base, "guarded", "Asks its own people first.", Guarded(), "JSONRPC"),
        *routes(base, "asker", "Books tables.", Asker(), "HTTP+JSON"),
    ]
    print(base, flush=True)
    config = uvicorn.Config(Starlette(routes=everything), log_level="warning")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


main()
