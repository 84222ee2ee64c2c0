// Runs the JavaScript clients of other projects, unmodified, against mm serve.
// Usage: node scripts/clients.mjs URL MODEL, in a folder with node_modules.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, model] = process.argv.slice(2);
const require = createRequire(process.cwd() + "/");
const total = { passed: 0, failed: 0, skipped: 0 };
const ask = [{ role: "user", content: "What is the weather in Paris?" }];
const city = { type: "object", properties: { city: { type: "string", maxLength: 12 } }, required: ["city"] };
const person = {
  type: "object", additionalProperties: false, required: ["name", "age"],
  properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer", minimum: 0, maximum: 99 } },
};
const tool = { type: "function", function: { name: "get_weather", parameters: city } };

function assert(ok, what) {
  if (!ok) throw new Error(what ?? "assertion failed");
}

async function check(name, fn) {
  try {
    await fn();
    total.passed++;
    console.log("ok   ", name);
  } catch (e) {
    total.failed++;
    console.log("FAIL ", name, String(e).slice(0, 300));
  }
}

async function suite(names, fn) {
  const modules = [];
  for (const name of names) {
    try {
      modules.push(await import(pathToFileURL(require.resolve(name))));
    } catch {
      total.skipped++;
      console.log("SKIP ", name, "is not installed");
      return;
    }
  }
  await fn(...modules);
}

async function freed() {
  for (let i = 0; i < 100; i++) {
    const text = await (await fetch(url + "/metrics")).text();
    if (text.includes("\nmm_requests_running 0\n")) return;
    await new Promise((r) => setTimeout(r, 50));
  }
  throw new Error("the answer still runs");
}

await suite(["openai"], async ({ default: OpenAI }) => {
  const c = new OpenAI({ baseURL: url + "/v1", apiKey: "x", maxRetries: 0 });
  const chat = c.chat.completions;
  await check("openai plain", async () => {
    const r = await chat.create({ model, messages: ask, max_tokens: 8 });
    assert(r.usage.completion_tokens <= 8);
  });
  await check("openai stream helper", async () => {
    const s = chat.stream({ model, messages: ask, max_tokens: 8, stream_options: { include_usage: true } });
    const r = await s.finalChatCompletion();
    assert(r.choices[0].finish_reason && (await s.totalUsage()).completion_tokens <= 8);
  });
  await check("openai tools streamed", async () => {
    const r = await chat.stream({ model, messages: ask, tools: [tool], tool_choice: "required", max_tokens: 60 }).finalChatCompletion();
    assert("city" in JSON.parse(r.choices[0].message.tool_calls[0].function.arguments));
  });
  await check("openai json_schema", async () => {
    const r = await chat.create({ model, messages: ask, max_tokens: 200, response_format: { type: "json_schema", json_schema: { name: "p", schema: person } } });
    assert("age" in JSON.parse(r.choices[0].message.content));
  });
  await check("openai error", async () => {
    const e = await chat.create({ model, messages: ask, temperature: -1 }).then(() => null, (e) => e);
    assert(e instanceof OpenAI.BadRequestError && e.param === "temperature", String(e));
  });
  await check("openai cancel", async () => {
    const s = await chat.create({ model, messages: ask, stream: true, max_tokens: 2000 });
    for await (const _ of s) break;
    s.controller.abort();
    await freed();
  });
  await check("openai responses stream", async () => {
    const r = await c.responses.stream({ model, input: "hi", max_output_tokens: 6 }).finalResponse();
    assert(r.usage.output_tokens <= 6);
  });
});

await suite(["@anthropic-ai/sdk"], async ({ default: Anthropic }) => {
  const c = new Anthropic({ baseURL: url, apiKey: "x", maxRetries: 0 });
  await check("@anthropic-ai/sdk stream", async () => {
    const r = await c.messages.stream({ model, max_tokens: 8, messages: ask }).finalMessage();
    assert(r.usage.output_tokens <= 8);
  });
  await check("@anthropic-ai/sdk tools", async () => {
    const r = await c.messages.create({ model, max_tokens: 60, messages: ask, tools: [{ name: "get_weather", input_schema: city }], tool_choice: { type: "any" } });
    assert(r.stop_reason === "tool_use" && "city" in r.content[0].input);
  });
});

await suite(["ai", "@ai-sdk/openai-compatible", "@ai-sdk/openai"], async (ai, { createOpenAICompatible }, { createOpenAI }) => {
  const local = createOpenAICompatible({ name: "mm", baseURL: url + "/v1", includeUsage: true, supportsStructuredOutputs: true })(model);
  const weather = ai.tool({ inputSchema: ai.jsonSchema(city) });
  await check("ai text", async () => {
    const r = await ai.generateText({ model: local, prompt: "hi", maxOutputTokens: 6 });
    assert(r.usage.outputTokens <= 6);
  });
  await check("ai stream", async () => {
    const r = ai.streamText({ model: local, prompt: "hi", maxOutputTokens: 6 });
    for await (const _ of r.textStream);
    assert((await r.finishReason) !== "error" && (await r.usage).outputTokens <= 6);
  });
  await check("ai object", async () => {
    const r = await ai.generateObject({ model: local, prompt: "a person", schema: ai.jsonSchema(person) });
    assert(r.object.age <= 99);
  });
  await check("ai tools", async () => {
    const r = await ai.generateText({ model: local, prompt: "weather in Paris", tools: { get_weather: weather }, toolChoice: "required", maxOutputTokens: 60 });
    assert("city" in r.toolCalls[0].input);
  });
  const responses = createOpenAI({ baseURL: url + "/v1", apiKey: "x" })(model);
  await check("ai responses stream", async () => {
    const r = ai.streamText({ model: responses, prompt: "hi", maxOutputTokens: 6 });
    for await (const _ of r.textStream);
    assert((await r.finishReason) !== "error", await r.finishReason);
  });
  await check("ai responses tools", async () => {
    const r = ai.streamText({ model: responses, prompt: "weather in Paris", tools: { get_weather: weather }, toolChoice: "required", maxOutputTokens: 60 });
    for await (const _ of r.textStream);
    assert((await r.toolCalls)[0].toolName === "get_weather");
  });
});

console.log(JSON.stringify(total));
process.exit(total.failed ? 1 : 0);
