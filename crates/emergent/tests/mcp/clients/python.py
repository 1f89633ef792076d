"""The official Python client: python.py MODE http URL TOKEN | python.py MODE stdio COMMAND ARGS…

Lists the tools, makes an entity and reads it back; prints what it saw as one line of JSON."""

import asyncio
import json
import sys

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


async def drive(target, mode, key):
    async with Client(target, mode=mode) as client:
        tools = (await client.list_tools()).tools
        made = await client.call_tool(
            "entities_create", {"type": "Person", "key": key, "properties": {"name": "Ada"}}
        )
        found = await client.call_tool("entities_get", {"id": f"Person/{key}"})
        hint = next(tool for tool in tools if tool.name == "entities_get").annotations.read_only_hint
        print(json.dumps({
            "version": client.protocol_version,
            "tools": [tool.name for tool in tools],
            "readOnly": hint,
            "failed": bool(made.is_error or found.is_error),
            "found": found.content[0].text,
        }))


async def main():
    mode, kind, *rest = sys.argv[1:]
    key = f"python-{mode}-{kind}"
    if kind == "http":
        url, token = rest
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            await drive(streamable_http_client(url, http_client=http), mode, key)
    else:
        await drive(stdio_client(StdioServerParameters(command=rest[0], args=rest[1:])), mode, key)


asyncio.run(main())
