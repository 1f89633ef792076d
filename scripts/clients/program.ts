// Uses the generated types as a client would. It is only type-checked, by scripts/api-clients.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Run = components["schemas"]["RunDetail"];

const client = createClient<paths>({ baseUrl: "http://127.0.0.1:4400", headers: { Authorization: "Bearer token" } });

async function createObject(): Promise<string> {
  const { data, error } = await client.POST("/api/graph/objects", {
    body: { type: "Task", key: "a", labels: ["open"], properties: { title: "Write", estimate: 3, nested: { deep: [1] } } },
  });
  if (error) {
    throw new Error(`${error.error.code}: ${error.error.message}`);
  }
  const success: true = data.success;
  const title: unknown = data.data.properties["title"];
  console.log(success, title);
  return data.data.id;
}

async function search(query: string): Promise<number[]> {
  const { data } = await client.POST("/api/graph/search", { body: { query, mode: "hybrid", limit: 5 } });
  return data?.data.hits.map((hit) => hit.score) ?? [];
}

async function trigger(agentId: string): Promise<Run | undefined> {
  const started = await client.POST("/api/admin/agents/{agentId}/trigger", {
    params: { path: { agentId } },
    body: { input: "Summarise the graph", context: { since: "2026-01-01" } },
  });
  const runId = started.data?.data.runId;
  if (!runId) {
    return undefined;
  }
  const { data } = await client.GET("/api/admin/agents/{agentId}/runs/{runId}", {
    params: { path: { agentId, runId } },
  });
  const status: "queued" | "running" | "waiting" | "completed" | "failed" | "paused" | "cancelled" | undefined =
    data?.data.status;
  console.log(status);
  return data?.data;
}

await trigger(await createObject());
await search("graph");
