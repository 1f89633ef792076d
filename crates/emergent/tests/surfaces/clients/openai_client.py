"""Uses an agent with the official SDK of OpenAI, and prints what it saw as JSON.

    openai_client.py BASE_URL TOKEN
"""

import json
import sys

import httpx2 as httpx
import openai

BASE_URL, TOKEN = sys.argv[1:]
USER = [{"role": "user", "content": "Hello"}]


class LosesFirst(httpx.HTTPTransport):
    """Sends every request, and loses the response to the first one."""

    lost = 0

    def handle_request(self, request):
        response = super().handle_request(request)
        if not self.lost:
            self.lost += 1
            response.read()
            response.close()
            raise httpx.ReadError("the connection was lost", request=request)
        return response


def client(**options):
    return openai.OpenAI(base_url=BASE_URL, api_key=TOKEN, **options)


def lossy():
    return client(http_client=httpx.Client(transport=LosesFirst()), max_retries=2)


def streamed(api, **options):
    """The content, the reasoning, the reasons to finish and the usage of a stream."""
    seen = {"content": "", "reasoning": "", "finish": [], "usage": None, "id": None}
    stream = api.chat.completions.create(
        model="greeter", stream=True, stream_options={"include_usage": True}, **options
    )
    for chunk in stream:
        seen["id"] = chunk.id
        if chunk.usage:
            seen["usage"] = chunk.usage.total_tokens
        for choice in chunk.choices:
            seen["content"] += choice.delta.content or ""
            seen["reasoning"] += getattr(choice.delta, "reasoning_content", None) or ""
            if choice.finish_reason:
                seen["finish"].append(choice.finish_reason)
    return seen


WEATHER = [{"type": "function", "function": {
    # The SDK puts together only the calls of strict tools of a stream.
    "name": "get_weather", "description": "Tells the weather of a city.", "strict": True,
    "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        "additionalProperties": False,
    },
}}]


def whole_answer(api, **options):
    """The message of an answer that is not streamed."""
    return api.chat.completions.create(**options).choices[0].message.model_dump(exclude_none=True)


def streamed_answer(api, **options):
    """The message of an answer that is streamed, put together by the SDK."""
    with api.chat.completions.stream(**options) as stream:
        message = stream.get_final_completion().choices[0].message
    calls = [
        {"id": call.id, "type": "function",
         "function": {"name": call.function.name, "arguments": call.function.arguments}}
        for call in message.tool_calls or []
    ]
    return {"role": "assistant", "content": message.content} | ({"tool_calls": calls} if calls else {})


def with_tools(api, answer, key=None):
    """Asks for the weather and executes the tools that the agent calls, until it answers."""
    messages, cities = [{"role": "user", "content": "How is the weather?"}], []
    for turn in range(5):
        headers = {"Idempotency-Key": f"{key}-{turn}"} if key else {}
        message = answer(api, model="greeter", messages=messages, tools=WEATHER, extra_headers=headers)
        messages.append(message)
        if not message.get("tool_calls"):
            return [message["content"], cities]
        for call in message["tool_calls"]:
            cities.append(json.loads(call["function"]["arguments"])["city"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "sunny"})
    return None


def sent_twice(api):
    """Sends the same results twice, without a key. The second answer is the first one."""
    messages = [{"role": "user", "content": "How is the weather?"}]
    message = whole_answer(api, model="greeter", messages=messages, tools=WEATHER)
    messages.append(message)
    for call in message["tool_calls"]:
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "sunny"})
    answers = [
        api.chat.completions.create(model="greeter", messages=messages, tools=WEATHER) for _ in range(2)
    ]
    return answers[0].id == answers[1].id


def refused(action):
    """The error of an action: its class, its code and the wrong field."""
    try:
        action()
    except openai.APIError as error:
        return [type(error).__name__, error.code, error.param]
    return None


def broken_stream(api):
    for _ in api.chat.completions.create(model="broken", stream=True, messages=USER):
        pass


def main():
    api = client()
    whole = api.chat.completions.create(model="greeter", messages=USER, temperature=0.2)
    conversation = USER + [{"role": "assistant", "content": whole.choices[0].message.content}]
    later = api.chat.completions.create(
        model="greeter", messages=conversation + [{"role": "user", "content": "count"}]
    )
    key = {"extra_headers": {"Idempotency-Key": "order-17"}}
    again = lossy().chat.completions.create(model="greeter", messages=USER, **key)
    same = api.chat.completions.create(model="greeter", messages=USER, **key)
    stream_key = {"extra_headers": {"Idempotency-Key": "order-18"}}
    stream_again = streamed(lossy(), messages=USER, **stream_key)
    no_retry = client(max_retries=0)
    create = no_retry.chat.completions.create
    print(json.dumps({
        "models": [model.id for model in api.models.list()],
        "model": api.models.retrieve("greeter").id,
        "whole": [whole.choices[0].message.content, whole.choices[0].finish_reason, whole.usage.total_tokens > 0],
        "later": later.choices[0].message.content,
        "streamed": streamed(api, messages=[{"role": "user", "content": "look"}]),
        "retried": [again.choices[0].message.content, again.id == same.id],
        "streamRetried": stream_again["content"],
        "unknown": refused(lambda: create(model="nobody", messages=USER)),
        "notExternal": refused(lambda: create(model="worker", messages=USER)),
        "taken": refused(lambda: create(model="greeter", messages=USER, tools=[
            {"type": "function", "function": {"name": "project_info", "parameters": {"type": "object"}}}])),
        "tools": with_tools(api, whole_answer),
        "toolsStreamed": with_tools(api, streamed_answer),
        "toolsRetried": with_tools(lossy(), whole_answer, key="weather"),
        "toolsTwice": sent_twice(api),
        "token": refused(lambda: openai.OpenAI(base_url=BASE_URL, api_key="wrong", max_retries=0).models.list()),
        "failed": refused(lambda: client(max_retries=2).chat.completions.create(model="broken", messages=USER)),
        "failedStream": refused(lambda: broken_stream(no_retry)),
    }))


main()
