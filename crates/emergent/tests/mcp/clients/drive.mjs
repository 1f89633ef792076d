// What each TypeScript client does: list the tools, make an entity, read it back, say what it saw.
export async function drive(client, version, key) {
  const { tools } = await client.listTools();
  const made = await client.callTool({ name: 'entities_create', arguments: { type: 'Person', key, properties: { name: 'Ada' } } });
  const found = await client.callTool({ name: 'entities_get', arguments: { id: `Person/${key}` } });
  console.log(JSON.stringify({
    version: version(),
    tools: tools.map((tool) => tool.name),
    readOnly: tools.find((tool) => tool.name === 'entities_get').annotations.readOnlyHint,
    failed: Boolean(made.isError || found.isError),
    found: found.content[0].text,
  }));
  await client.close();
}
