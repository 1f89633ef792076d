// Uses agents with the client of AG-UI, and prints what it saw as JSON. The client checks every event.
//
//     agui_client.mjs MODULES BASE_URL TOKEN

import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, base, token] = process.argv.slice(2);
const { HttpAgent } = createRequire(join(modules, "index.js"))("@ag-ui/client");

function client(name, threadId, bearer = token) {
  const headers = { Authorization: `Bearer ${bearer}` };
  return new HttpAgent({ url: `${base}/api/agents/${name}/agui`, headers, threadId, initialState: { order: 7 } });
}

/** Runs an agent, and returns what its events and its messages say. */
async function run(agent, text, parameters = {}) {
  if (text) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  const seen = { types: [], interrupts: [], error: null };
  const subscriber = {
    onEvent: ({ event }) => void seen.types.push(event.type),
    onRunErrorEvent: ({ event }) => void (seen.error = event.code),
    onRunFinishedEvent: ({ event }) => {
      seen.interrupts = event.outcome?.interrupts ?? [];
      seen.outcome = event.outcome?.type;
    },
  };
  const { result, newMessages } = await agent.runAgent(parameters, subscriber);
  seen.result = result ?? null;
  seen.text = newMessages.filter((message) => message.role === "assistant" && message.content).map((m) => m.content);
  seen.results = newMessages.filter((message) => message.role === "tool").length;
  return seen;
}

async function refused(action) {
  try {
    await action();
    return null;
  } catch (error) {
    return error.status ?? String(error);
  }
}

// The client writes refusals to the console, which is for the result.
console.error = () => {};
const log = console.log;
console.log = () => {};

const talk = client("assistant", "talk");
const first = await run(talk, "Hello");
const second = await run(talk, "look");

const waits = client("careful", "waits");
const asked = await run(waits, "look");
const resume = asked.interrupts.map((interrupt) => ({
  interruptId: interrupt.id, status: "resolved", payload: { approved: true },
}));
const toolCalls = waits.messages.flatMap((message) => message.toolCalls ?? []);
const resumed = await run(waits, null, { resume, runId: "second" });
const ids = waits.messages.map((message) => message.id);

const question = client("curious", "question");
const questioned = await run(question, "ask");
const answered = await run(question, null, {
  resume: [{ interruptId: questioned.interrupts[0].id, status: "resolved", payload: "blue" }],
});

// A tool that the client executes. Its results go on with the same run.
const weather = {
  name: "get_weather", description: "Tells the weather of a city.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};
const tools = client("assistant", "tools");
const called = await run(tools, "How is the weather?", { tools: [weather] });
const answeredCalls = new Set(tools.messages.filter((message) => message.role === "tool").map((m) => m.toolCallId));
const pending = tools.messages.flatMap((message) => message.toolCalls ?? []).filter((call) => !answeredCalls.has(call.id));
for (const call of pending) {
  const { city } = JSON.parse(call.function.arguments);
  tools.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: `sunny in ${city}` });
}
const continued = await run(tools, null, { tools: [weather] });
const toolIds = tools.messages.map((message) => message.id);
const taken = await refused(() => run(client("assistant", "w"), "Hello", { tools: [{ ...weather, name: "project_info" }] }));

const failed = await run(client("broken", "failed"), "Hello");

log(JSON.stringify({
  first,
  second,
  state: talk.state,
  asked: { ...asked, interrupts: asked.interrupts.map(({ reason, toolCallId }) => [reason, toolCallId]) },
  toolCalls: toolCalls.map((call) => [call.id, call.function.name, call.function.arguments]),
  resumed,
  areIdsUnique: new Set(ids).size === ids.length,
  roles: waits.messages.map((message) => message.role),
  questioned: questioned.interrupts.map(({ reason, message }) => [reason, message]),
  answered,
  called: { ...called, pending: pending.map((call) => [call.function.name, call.function.arguments]) },
  continued,
  toolRoles: tools.messages.map((message) => message.role),
  areToolIdsUnique: new Set(toolIds).size === toolIds.length,
  taken,
  failed: failed.error,
  notExternal: await refused(() => run(client("worker", "w"), "Hello")),
  wrongToken: await refused(() => run(client("assistant", "w", "wrong"), "Hello")),
}));
