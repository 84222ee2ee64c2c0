// Speaks to mm mcp with the protocol's own SDK for JavaScript: lists the tools
// and calls each, over standard input and output or over HTTP. Arguments: stdio
// COMMAND…, or http URL. It ends with 1 at the first thing that is not so.
import assert from 'node:assert/strict'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const [how, ...rest] = process.argv.slice(2)
const transport = how === 'stdio'
  ? new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env, stderr: 'inherit' })
  : new StreamableHTTPClientTransport(new URL(rest[0]), {
    requestInit: { headers: process.env.MM_MCP_TOKEN ? { Authorization: `Bearer ${process.env.MM_MCP_TOKEN}` } : {} },
  })
const client = new Client({ name: 'stranger', version: '1.0.0' })
await client.connect(transport)
const server = client.getServerVersion()

const { tools } = await client.listTools()
const names = tools.map(t => t.name).sort()
for (const name of ['adder', 'assemble', 'infer', 'validate']) assert.ok(names.includes(name), `no ${name} among ${names}`)
for (const t of tools) assert.equal(t.inputSchema.type, 'object', t.name)

// callTool compares what a tool gives with the schema that it promises.
const call = async (name, args) => {
  const r = await client.callTool({ name, arguments: args }, undefined, { timeout: 300000 })
  return { failed: !!r.isError, text: r.content.map(c => c.text ?? '').join(''), value: r.structuredContent }
}
const found = await call('validate', { paths: ['b.graph.yaml', 'modules'] })
assert.equal(found.value?.ok, true, found.text)
const made = await call('assemble', { graph: 'b.graph.yaml', out: 'dist/b' })
assert.equal(made.failed, false, made.text)
assert.equal(made.value.ref, 'b:1.0.0')
const said = await call('infer', { inputs: [{ type: 'text', text: 'Once upon a time' }], preferences: { max_tokens: 8 }, tools_allowed: [] })
assert.equal(said.failed, false, said.text)
assert.equal(said.value.generated_tokens, 8)
const sum = await call('adder', { a: 2, b: 40 })
assert.deepEqual(sum.value, { sum: 42 }, sum.text)
for (const [name, args] of [['adder', { a: 'two' }], ['validate', { paths: ['/etc'] }], ['infer', {}]]) {
  const wrong = await call(name, args)
  assert.equal(wrong.failed, true, `${name} ${JSON.stringify(args)} gave ${wrong.text}`)
}
await assert.rejects(client.callTool({ name: 'rm', arguments: {} }), /unknown tool/)
await client.close()
console.log(`${how}: ${server.name} ${server.version} serves ${names.join(', ')}; ${found.value.checked} documents checked, ${made.value.ref} made, ${said.value.generated_tokens} tokens, ${sum.text}`)
