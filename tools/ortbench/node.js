// Runs a model by ONNX Runtime's own binding for Node: a line of JSON in, a
// line of JSON out. The argument says where the package lies.
const ort = require(process.argv[1] + "/node_modules/onnxruntime-node");
const lines = require("readline").createInterface({ input: process.stdin });
const arrays = { fp32: Float32Array, int64: BigInt64Array, uint8: Uint8Array };
const names = { fp32: "float32", int64: "int64", uint8: "uint8" };
let session, feeds;
async function handle(line) {
  const ask = JSON.parse(line);
  if (ask.model) {
    session = await ort.InferenceSession.create(ask.model, {
      intraOpNumThreads: ask.threads, interOpNumThreads: 1,
      extra: { session: { intra_op: { allow_spinning: "0" }, inter_op: { allow_spinning: "0" } } },
    });
    feeds = {};
    for (const t of ask.in) {
      const b = Buffer.from(t.data, "base64");
      const data = new arrays[t.type](b.buffer.slice(b.byteOffset, b.byteOffset + b.length));
      feeds[t.name] = new ort.Tensor(names[t.type], data, t.shape);
    }
  }
  const took = [];
  for (let i = 0; i < ask.runs; i++) {
    const begin = process.hrtime.bigint();
    await session.run(feeds);
    took.push(Number(process.hrtime.bigint() - begin));
  }
  console.log(JSON.stringify(took));
}
let turn = Promise.resolve();
lines.on("line", (line) => { turn = turn.then(() => handle(line)); });
turn.catch((e) => { console.error(e); process.exit(1); });
