// The TypeScript SDK 1.x, which speaks the era of sessions only:
// typescript1.mjs legacy http URL TOKEN | typescript1.mjs legacy stdio COMMAND ARGS…
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { drive } from './drive.mjs';

const [, kind, ...rest] = process.argv.slice(2);
let version;
const transport = kind === 'http'
  ? new StreamableHTTPClientTransport(new URL(rest[0]), { requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } } })
  : new StdioClientTransport({ command: rest[0], args: rest.slice(1), stderr: 'inherit' });
transport.setProtocolVersion = ((set) => (negotiated) => { version = negotiated; set?.call(transport, negotiated); })(transport.setProtocolVersion);
const client = new Client({ name: 'typescript-1', version: '1' }, { capabilities: {} });
await client.connect(transport);
await drive(client, () => version, `typescript1-${kind}`);
