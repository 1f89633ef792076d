// Uses an agent with the official JavaScript SDK of OpenAI, and prints what it saw as JSON.
//
//     openai_client.cjs BASE_URL TOKEN

const OpenAI = require("openai");

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey });
const model = "greeter";
const weather = {
  name: "get_weather",
  description: "Tells the weather of a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

/** The text and the reasons to finish of a stream. */
async function streamed(body) {
  const seen = { content: "", finish: [] };
  for await (const chunk of await client.chat.completions.create({ model, stream: true, ...body })) {
    for (const choice of chunk.choices) {
      seen.content += choice.delta.content ?? "";
      if (choice.finish_reason) seen.finish.push(choice.finish_reason);
    }
  }
  return seen;
}

/** Lets the SDK execute the tools that the agent calls, until the agent answers. */
async function withTools(stream) {
  const cities = [];
  const get = ({ city }) => {
    cities.push(city);
    return "sunny";
  };
  const tools = [{ type: "function", function: { ...weather, parse: JSON.parse, function: get } }];
  const messages = [{ role: "user", content: "How is the weather?" }];
  const runner = client.chat.completions.runTools({ model, messages, tools, stream });
  return [await runner.finalContent(), cities];
}

/** The error of a request: its class, its code and the wrong field. */
async function refused(body) {
  try {
    await client.chat.completions.create({ model, messages: [{ role: "user", content: "Hi" }], ...body });
  } catch (error) {
    return [error.constructor.name, error.code, error.param];
  }
  return null;
}

async function main() {
  const messages = [{ role: "user", content: "Hello" }];
  const whole = await client.chat.completions.create({ model, messages });
  const models = [];
  for await (const found of client.models.list()) models.push(found.id);
  const key = { headers: { "Idempotency-Key": "order-19" } };
  const first = await client.chat.completions.create({ model, messages }, key);
  const again = await client.chat.completions.create({ model, messages }, key);
  const seen = {
    models,
    whole: [whole.choices[0].message.content, whole.choices[0].finish_reason],
    streamed: await streamed({ messages }),
    repeated: first.id === again.id,
    tools: await withTools(false),
    toolsStreamed: await withTools(true),
    unknown: await refused({ model: "nobody" }),
    choice: await refused({ tools: [{ type: "function", function: weather }], tool_choice: "required" }),
  };
  console.log(JSON.stringify(seen));
}

main();
