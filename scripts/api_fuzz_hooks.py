"""What schemathesis has to be told about this API; loaded by scripts/api-fuzz."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context, value):
    """One JSON value per line: the body of an import. Schemathesis has no serializer for it."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", errors="surrogatepass")
    lines = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(line) for line in lines).encode()
