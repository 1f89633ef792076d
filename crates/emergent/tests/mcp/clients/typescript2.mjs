// The TypeScript client 2.x, which speaks both eras:
// typescript2.mjs legacy|auto|modern http URL TOKEN | typescript2.mjs MODE stdio COMMAND ARGS…
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { drive } from './drive.mjs';

const [era, kind, ...rest] = process.argv.slice(2);
const transport = kind === 'http'
  ? new StreamableHTTPClientTransport(new URL(rest[0]), { requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } } })
  : new StdioClientTransport({ command: rest[0], args: rest.slice(1), stderr: 'inherit' });
const mode = era === 'modern' ? { pin: '2026-07-28' } : era;
const client = new Client({ name: 'typescript-2', version: '1' }, { capabilities: {}, versionNegotiation: { mode } });
await client.connect(transport);
await drive(client, () => client.getNegotiatedProtocolVersion(), `typescript2-${era}-${kind}`);
