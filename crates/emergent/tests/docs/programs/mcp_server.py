"""A small MCP server on stdio, with the names of the reference server `filesystem`.

The tests of `emergent-mcp` use the real ones; here only the commands of the documentation count.
"""

import json
import sys

TOOLS = [
    {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
    }
    for name, description in [("read_text_file", "Read a file"), ("list_directory", "List a folder")]
]

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    response = {"jsonrpc": "2.0", "id": request["id"]}
    match request["method"]:
        case "initialize":
            response["result"] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "files", "version": "1.0.0"},
            }
        case "tools/list":
            response["result"] = {"tools": TOOLS}
        case "tools/call":
            with open(request["params"]["arguments"]["path"]) as file:
                response["result"] = {"content": [{"type": "text", "text": file.read()}]}
        case "ping":
            response["result"] = {}
        case method:
            response["error"] = {"code": -32601, "message": f"unknown method {method}"}
    print(json.dumps(response), flush=True)
