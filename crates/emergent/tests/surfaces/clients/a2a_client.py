"""A client that is built with the Python SDK of A2A; prints what it saw as JSON.

    a2a_client.py BASE TOKEN BINDING steps HOOK   card, send, stream, get, list, cancel, a question, errors, push
    a2a_client.py BASE TOKEN BINDING wait HOOK    starts a task that needs an input, prints its id
    a2a_client.py BASE TOKEN BINDING go-on ID     subscribes to that task, answers it, prints the rest
"""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)

BASE, TOKEN, BINDING, STEP, ARGUMENT = sys.argv[1:6]


def config(task, url, id="hook"):
    authentication = AuthenticationInfo(scheme="Bearer", credentials="credentials-of-the-client")
    return TaskPushNotificationConfig(
        id=id, task_id=task, url=url, token="token-of-the-client", authentication=authentication
    )


def message(id, text, task="", context="", at_once=False, hook=None):
    parts = [Part(text=text)]
    sent = Message(message_id=id, role=Role.ROLE_USER, parts=parts, task_id=task, context_id=context)
    request = SendMessageRequest(message=sent)
    request.configuration.return_immediately = at_once
    if hook:
        request.configuration.task_push_notification_config.CopyFrom(config("", hook))
    return request


def state(task):
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_")


async def follow(stream):
    """The states of a stream, and its artifact as a client puts it together."""
    states, artifact, task = [], "", ""
    async for event in stream:
        if event.HasField("task"):
            task = event.task.id
            states.append(state(event.task))
        if event.HasField("status_update"):
            states.append(state(event.status_update))
        if event.HasField("artifact_update"):
            text = "".join(part.text for part in event.artifact_update.artifact.parts)
            artifact = artifact + text if event.artifact_update.append else text
    return {"task": task, "first": states[0], "last": states[-1], "artifact": artifact}


async def whole(client, request):
    async for event in client.send_message(request):
        return event.task
    raise AssertionError("no response")


async def error(call):
    try:
        await call
    except Exception as failure:
        return type(failure).__name__
    return None


async def steps(client, factory):
    seen = {"card": client._card.name, "skills": [skill.id for skill in client._card.skills]}
    seen["push"] = client._card.capabilities.push_notifications
    streaming = factory(True)
    task = await whole(client, message("m1", "Hello"))
    seen["sent"] = [state(task), task.artifacts[0].parts[0].text, len(task.history)]
    again = await whole(client, message("m1", "Hello"))
    seen["sameTask"] = again.id == task.id
    seen["streamed"] = await follow(streaming.send_message(message("m2", "Stream this")))
    got = await client.get_task(GetTaskRequest(id=task.id, history_length=1))
    seen["got"] = [got.id == task.id, len(got.history)]
    later = await whole(client, message("m3", "And then?", context=task.context_id))
    seen["later"] = [later.context_id == task.context_id, later.id != task.id, state(later)]
    listed = await client.list_tasks(ListTasksRequest(page_size=2))
    rest = await client.list_tasks(ListTasksRequest(page_size=2, page_token=listed.next_page_token))
    seen["listed"] = [len(listed.tasks), len(rest.tasks), listed.total_size, rest.next_page_token]
    asked = await whole(client, message("m4", "ask me", hook=ARGUMENT))
    seen["asked"] = [state(asked), asked.status.message.parts[0].text]
    seen["pushed"] = asked.id
    configs = await client.list_task_push_notification_configs(
        ListTaskPushNotificationConfigsRequest(task_id=asked.id)
    )
    seen["configs"] = [
        [one.id, one.url == ARGUMENT, one.token, one.authentication.credentials] for one in configs.configs
    ]
    await client.create_task_push_notification_config(config(asked.id, ARGUMENT, "second"))
    second = {"task_id": asked.id, "id": "second"}
    found = await client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**second))
    await client.delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(**second))
    missing = client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**second))
    seen["second"] = [found.url == ARGUMENT, await error(missing)]
    answered = await whole(client, message("m5", "Blue", task=asked.id, context=asked.context_id))
    seen["answered"] = [state(answered), answered.artifacts[0].parts[0].text]
    waiting = await whole(client, message("m6", "ask me again"))
    cancelled = await client.cancel_task(CancelTaskRequest(id=waiting.id))
    seen["cancelled"] = state(cancelled)
    seen["errors"] = [
        await error(client.get_task(GetTaskRequest(id="made-up"))),
        await error(client.cancel_task(CancelTaskRequest(id=task.id))),
        await error(whole(client, message("m7", "More", task=task.id))),
    ]
    await streaming.close()
    return seen


async def main():
    headers = {"Authorization": f"Bearer {TOKEN}"}
    http = httpx.AsyncClient(headers=headers, timeout=60)
    card = await A2ACardResolver(http, BASE).get_agent_card()

    def factory(streaming):
        config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[BINDING])
        return ClientFactory(config).create(card)

    client = factory(False)
    if STEP == "steps":
        seen = await steps(client, factory)
    elif STEP == "wait":
        asked = await whole(client, message("w1", "ask me", hook=ARGUMENT))
        seen = {"task": asked.id, "state": state(asked)}
    else:
        task = ARGUMENT
        updates = asyncio.create_task(follow(factory(True).subscribe(SubscribeToTaskRequest(id=task))))
        await asyncio.sleep(0.5)
        answered = await whole(client, message("w2", "Green", task=task))
        seen = {"answered": state(answered), "followed": await asyncio.wait_for(updates, 30)}
    print(json.dumps(seen))


asyncio.run(main())
