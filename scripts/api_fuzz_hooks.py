"""What schemathesis has to be told about this API; loaded by scripts/api-fuzz."""

import json
import os
import urllib.request
import zlib

import schemathesis
from hypothesis import strategies as st

# What scripts/api-fuzz created for the requests of A2A: where the server is, the project, the agent, and tasks of it.
A2A = json.loads(os.environ.get("API_FUZZ_A2A", "null"))
METHODS = [
    "SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask",
    "CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig", "GetExtendedAgentCard",
]


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context, value):
    """One JSON value per line: the body of an import. Schemathesis has no serializer for it."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", errors="surrogatepass")
    lines = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(line) for line in lines).encode()


@schemathesis.hook
def before_load_schema(_context, raw_schema):
    """The description has the schema of the data of an event, and schemathesis wants that of the whole event."""
    for item in raw_schema["paths"].values():
        for operation in item.values():
            answers = operation.get("responses", {}).values() if isinstance(operation, dict) else ()
            for answer in answers:
                stream = answer.get("content", {}).get("text/event-stream")
                if stream and "schema" in stream:
                    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": stream["schema"]}
                    stream["schema"] = {"type": "object", "required": ["data"], "properties": {"data": data}}


@schemathesis.hook
def after_call(_context, case, response):
    """Notes which operations sent a stream: scripts/api-fuzz fails if none of them did."""
    types = response.headers.get("content-type") or [""]
    if types[0].startswith("text/event-stream") and "API_FUZZ_STREAMS" in os.environ:
        with open(os.environ["API_FUZZ_STREAMS"], "a") as seen:
            seen.write(f"{case.method} {case.operation.path}\n")


# --- A2A ----------------------------------------------------------------------------------------
#
# Made-up names of agents and ids of tasks are only ever not found. So most requests of A2A get those that exist, and
# half of the messages are ones that an agent answers.


def is_a2a(context):
    return A2A is not None and context.operation is not None and context.operation.path.startswith("/a2a/")


def mostly(strategy, otherwise):
    return st.one_of(strategy, strategy, strategy, otherwise)


def texts():
    return st.text(max_size=50)


def values():
    return st.recursive(
        st.none() | st.booleans() | st.integers() | texts(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
        max_leaves=8)


def task_ids():
    return mostly(st.sampled_from(A2A["tasks"]), texts())


def fields(required, optional):
    """Objects with the required fields, and with any of the others."""
    return st.fixed_dictionaries(required, optional=optional)


def push_configs():
    urls = st.sampled_from(["https://example.com/hook", "http://127.0.0.1:1/", "file:///etc/passwd", ""]) | texts()
    authentication = fields({"scheme": texts()}, {"credentials": texts()})
    return fields({"url": urls}, {"id": texts(), "token": texts(), "authentication": authentication})


def answered_messages(*texts):
    """Messages with some of these texts that start a task, or go on with one."""
    parts = st.lists(
        st.fixed_dictionaries({"text": st.sampled_from(texts)}) | fields({"data": values()}, {}),
        min_size=1, max_size=3)
    to = st.sampled_from([{}, {}, {"taskId": A2A["tasks"][-1]}, {"contextId": A2A["tasks"][0]}])
    message = st.builds(
        lambda id, parts, to: {"messageId": str(id), "role": "ROLE_USER", "parts": parts, **to},
        st.uuids(), parts, to)
    configuration = fields({}, {"returnImmediately": st.booleans(), "historyLength": st.integers(0, 10)})
    return fields({"message": message}, {"configuration": configuration})


def odd_messages():
    parts = st.one_of(
        fields({"text": texts()}, {"mediaType": texts()}), fields({"data": values()}, {}),
        fields({"raw": texts()}, {"filename": texts()}), fields({"url": texts()}, {}), values())
    roles = mostly(st.just("ROLE_USER"), st.sampled_from(["ROLE_AGENT", "user", "", None, 1]))
    message = fields(
        {"messageId": texts(), "role": roles, "parts": st.lists(parts, max_size=3)},
        {"taskId": task_ids(), "contextId": task_ids(), "metadata": values(),
         "referenceTaskIds": st.lists(task_ids(), max_size=2), "extensions": st.lists(texts(), max_size=2)})
    configuration = fields({}, {
        "returnImmediately": st.booleans() | values(), "historyLength": st.integers() | values(),
        "acceptedOutputModes": st.lists(texts(), max_size=2), "taskPushNotificationConfig": push_configs()})
    return fields({"message": message}, {"configuration": configuration | values(), "metadata": values()})


def rpc_requests():
    of_task = fields({}, {"id": task_ids(), "taskId": task_ids(), "historyLength": st.integers() | values()})
    page = fields({}, {"pageSize": st.integers(), "pageToken": texts(), "contextId": task_ids(), "status": texts()})
    config = st.builds(lambda task, config: {"taskId": task, **config}, task_ids(), push_configs())
    params = st.one_of(answered_messages("Hello"), odd_messages(), of_task, page, config, values())
    named = st.one_of(
        st.tuples(st.just("SendStreamingMessage"), answered_messages("Hello", "ask me")),
        st.tuples(st.just("SendStreamingMessage"), answered_messages("Hello", "ask me")),
        st.tuples(st.just("SendMessage"), answered_messages("Hello", "ask me")),
        st.tuples(st.sampled_from(METHODS[2:6]), of_task),
        st.tuples(st.sampled_from(METHODS), params), st.tuples(texts(), params))
    return st.builds(
        lambda version, id, named: {"jsonrpc": version, "id": id, "method": named[0], "params": named[1]},
        mostly(st.just("2.0"), values()), st.integers() | texts() | values(), named)


@schemathesis.hook
def before_generate_body(context, strategy):
    if not is_a2a(context):
        return strategy
    path = context.operation.path
    if path == "/a2a/{project}/{agent}":
        return mostly(rpc_requests(), strategy)
    if path.endswith(("/message:send", "/message:stream")):
        # A stream ends with its task, so the agent asks for nothing.
        answered = answered_messages("Hello", "Hi") if path.endswith(":stream") else answered_messages("Hello", "ask me")
        return st.one_of(answered, answered, odd_messages(), strategy)
    return strategy


def waiting_task(otherwise):
    """The id of a new task that waits for an answer: other requests may have ended the earlier ones."""
    message = {"messageId": os.urandom(8).hex(), "role": "ROLE_USER", "parts": [{"text": "ask me"}]}
    headers = {"Authorization": f"Bearer {A2A['token']}", "Content-Type": "application/json", "A2A-Version": "1.0"}
    url = f"{A2A['url']}/a2a/{A2A['project']}/{A2A['agent']}/v1/message:send"
    request = urllib.request.Request(url, json.dumps({"message": message}).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())["task"]["id"]
    except OSError:
        # Another request may have removed the agent.
        return otherwise


@schemathesis.hook
def before_call(context, case, kwargs):
    """Most requests name the agent, one of its tasks, and the version of the protocol."""
    if not is_a2a(context) or not case.path_parameters:
        return
    # Which ones follows from what was generated, so the same seed makes the same requests.
    chance = zlib.crc32(repr((case.path_parameters, case.body, case.query)).encode(errors="surrogatepass"))
    known = {"project": A2A["project"], "agent": A2A["agent"]}
    tasks, actions = A2A["tasks"], ["", ":subscribe", ":subscribe", ":cancel", ":"]
    if case.operation.path.endswith("/{id}"):
        task, action = tasks[chance // 8 % len(tasks)], actions[chance // 128 % len(actions)]
        known["id"] = (waiting_task(task) if action == ":subscribe" else task) + action
    elif "{id}" in case.operation.path:
        known["id"] = tasks[chance // 8 % len(tasks)]
    if chance % 8 != 0:
        case.path_parameters.update((name, value) for name, value in known.items() if name in case.path_parameters)
    if chance % 8 != 1:
        case.headers["A2A-Version"] = "1.0"
        case.headers.pop("X-Project-ID", None)
        if case.query:
            case.query.pop("A2A-Version", None)
