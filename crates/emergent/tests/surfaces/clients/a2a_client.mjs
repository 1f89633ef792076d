// A client that is built with the JavaScript SDK of A2A; prints what it saw as JSON.
//
//     node a2a_client.mjs BASE TOKEN BINDING steps HOOK   card, send, stream, get, list, cancel, a question, errors, push
//     node a2a_client.mjs BASE TOKEN BINDING wait HOOK    starts a task that needs an input, prints its id
//     node a2a_client.mjs BASE TOKEN BINDING go-on ID     subscribes to that task, answers it, prints the rest

import { Role, TaskState, taskStateToJSON } from "@a2a-js/sdk";
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";

const [base, token, binding, step, argument] = process.argv.slice(2);
const authorized = (url, init = {}) =>
  fetch(url, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } });
const options = { fetchImpl: authorized };
const resolver = new DefaultAgentCardResolver(options);
const card = await resolver.resolve(`${base}/.well-known/agent-card.json`, "");
const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory(options), new RestTransportFactory(options)],
    preferredTransports: [binding],
    cardResolver: resolver,
  }),
);
const client = await factory.createFromAgentCard(card);

const message = (id, text, { task = "", context = "", atOnce = false, hook } = {}) => ({
  tenant: "",
  metadata: {},
  message: {
    messageId: id,
    role: Role.ROLE_USER,
    parts: [{ content: { $case: "text", value: text }, metadata: {}, filename: "", mediaType: "" }],
    taskId: task,
    contextId: context,
    metadata: {},
    extensions: [],
    referenceTaskIds: [],
  },
  configuration: {
    acceptedOutputModes: [],
    returnImmediately: atOnce,
    taskPushNotificationConfig: hook ? config("", hook) : undefined,
  },
});
const config = (taskId, url, id = "hook") => ({
  tenant: "", id, taskId, url, token: "token-of-the-client",
  authentication: { scheme: "Bearer", credentials: "credentials-of-the-client" },
});
const state = (task) => taskStateToJSON(task.status.state).replace("TASK_STATE_", "");
const text = (parts) => parts.map((part) => (part.content?.$case === "text" ? part.content.value : "")).join("");
const whole = async (request) => {
  const response = await client.sendMessage(request);
  return response.payload?.value ?? response;
};

// The states of a stream, and its artifact as a client puts it together.
async function follow(stream) {
  let [states, artifact, id] = [[], "", ""];
  for await (const event of stream) {
    const { $case: kind, value } = event.payload ?? event;
    if (kind === "task") id = value.id;
    if (kind === "task" || kind === "statusUpdate") states.push(state(value));
    if (kind === "artifactUpdate") artifact = (value.append ? artifact : "") + text(value.artifact.parts);
  }
  return { task: id, first: states[0], last: states.at(-1), artifact };
}

async function error(call) {
  try {
    await call;
  } catch (failure) {
    // The names say by which binding the error came.
    return failure.constructor.name.replace(/^(JsonRpc|Rest)/, "");
  }
  return null;
}

async function steps() {
  const seen = { card: card.name, skills: card.skills.map((skill) => skill.id), push: card.capabilities.pushNotifications };
  const task = await whole(message("m1", "Hello"));
  seen.sent = [state(task), text(task.artifacts[0].parts), task.history.length];
  seen.sameTask = (await whole(message("m1", "Hello"))).id === task.id;
  seen.streamed = await follow(client.sendMessageStream(message("m2", "Stream this")));
  delete seen.streamed.task;
  const got = await client.getTask({ tenant: "", id: task.id, historyLength: 1 });
  seen.got = [got.id === task.id, got.history.length];
  const later = await whole(message("m3", "And then?", { context: task.contextId }));
  seen.later = [later.contextId === task.contextId, later.id !== task.id, state(later)];
  const query = { tenant: "", contextId: "", status: TaskState.TASK_STATE_UNSPECIFIED, pageSize: 2, pageToken: "" };
  const listed = await client.listTasks(query);
  const rest = await client.listTasks({ ...query, pageToken: listed.nextPageToken });
  seen.listed = [listed.tasks.length, rest.tasks.length, listed.totalSize, rest.nextPageToken];
  const asked = await whole(message("m4", "ask me", { hook: argument }));
  seen.asked = [state(asked), text(asked.status.message.parts)];
  seen.pushed = asked.id;
  const configs = await client.listTaskPushNotificationConfig({ tenant: "", taskId: asked.id, pageSize: 0, pageToken: "" });
  seen.configs = configs.configs.map((one) => [one.id, one.url === argument, one.token, one.authentication.credentials]);
  await client.createTaskPushNotificationConfig(config(asked.id, argument, "second"));
  const second = { tenant: "", taskId: asked.id, id: "second" };
  const found = await client.getTaskPushNotificationConfig(second);
  await client.deleteTaskPushNotificationConfig(second);
  seen.second = [found.url === argument, await error(client.getTaskPushNotificationConfig(second))];
  const answered = await whole(message("m5", "Blue", { task: asked.id, context: asked.contextId }));
  seen.answered = [state(answered), text(answered.artifacts[0].parts)];
  const waiting = await whole(message("m6", "ask me again"));
  seen.cancelled = state(await client.cancelTask({ tenant: "", id: waiting.id, metadata: {} }));
  seen.errors = [
    await error(client.getTask({ tenant: "", id: "made-up" })),
    await error(client.cancelTask({ tenant: "", id: task.id, metadata: {} })),
    await error(whole(message("m7", "More", { task: task.id }))),
  ];
  return seen;
}

let seen;
if (step === "steps") {
  seen = await steps();
} else if (step === "wait") {
  const asked = await whole(message("w1", "ask me", { hook: argument }));
  seen = { task: asked.id, state: state(asked) };
} else {
  const updates = follow(client.resubscribeTask({ tenant: "", id: argument }));
  await new Promise((resolve) => setTimeout(resolve, 500));
  const answered = await whole(message("w2", "Green", { task: argument }));
  seen = { answered: state(answered), followed: await updates };
}
console.log(JSON.stringify(seen));
