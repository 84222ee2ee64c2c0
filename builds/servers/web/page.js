// The page: it runs the functions of functions.json in ONNX Runtime Web.
import * as ort from './ort/ort.wasm.min.mjs';
import { arrays, cosine, elements, fitted, formatNpy, numbers, parseNpy, size } from './tensor.js';
import { picture, sound } from './prepare.js';

const least = 0.9999; // cosine of a passed output
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = { mjs: new URL('ort/ort-wasm-simd-threaded.mjs', document.baseURI).href, wasm: new URL('ort/ort-wasm-simd-threaded.wasm', document.baseURI).href };
ort.env.logLevel = 'error';

const find = id => document.getElementById(id);

// make returns an element with properties and children.
function make(name, properties = {}, ...children) {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
}

// load fetches a file and compares its digest.
async function load(file) {
  const response = await fetch(file.path);
  if (!response.ok) throw new Error(`${file.path}: ${response.status} ${response.statusText}`);
  const bytes = await response.arrayBuffer();
  if (!globalThis.crypto?.subtle) return bytes; // the page names this
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  const hex = Array.from(digest, b => b.toString(16).padStart(2, '0')).join('');
  if (hex !== file.sha256) throw new Error(`${file.path}: the digest is sha256:${hex}, want sha256:${file.sha256}`);
  return bytes;
}

const sessions = new Map(); // by the function's name

// open returns the session of a function.
function open(f) {
  if (!sessions.has(f.name)) sessions.set(f.name, create(f));
  return sessions.get(f.name);
}

async function create(f) {
  const externalData = [];
  for (const d of f.data ?? []) externalData.push({ path: d.name, data: new Uint8Array(await load(d)) });
  return ort.InferenceSession.create(new Uint8Array(await load(f.model)), { executionProviders: ['wasm'], externalData });
}

// tensor returns numbers as a tensor for an input.
function tensor(input, values, given) {
  return new ort.Tensor(input.type, elements(input.type, values), fitted(input.dims, values.length, given));
}

// golden returns the golden tensor of an input.
async function golden(f, input) {
  const a = parseNpy(await load(f.golden.inputs[input.name]));
  return tensor(input, numbers(a.type, a.data, true), a.dims);
}

// check compares all functions with their golden outputs.
async function check(build) {
  const status = find('check-status'), table = find('results'), rows = table.tBodies[0];
  let passed = 0, failed = 0;
  rows.replaceChildren();
  table.hidden = false;
  find('check').disabled = true;
  document.documentElement.dataset.check = 'running';
  for (const f of build.functions) {
    status.textContent = `Running ${f.name} …`;
    for (const r of await checkOne(f)) {
      r.verdict === 'passed' ? passed++ : r.verdict === 'failed' && failed++;
      rows.append(make('tr', {}, make('th', { scope: 'row', textContent: f.name }), ...[r.output, r.cosine, r.most, r.time, r.verdict].map(textContent => make('td', { textContent }))));
    }
  }
  status.textContent = `${passed} outputs passed, ${failed} failed. An output passes with a cosine of ${least} or more.`;
  find('check').disabled = false;
  document.documentElement.dataset.check = failed || !passed ? 'failed' : 'passed';
}

async function checkOne(f) {
  if (!f.golden) return [{ output: '', cosine: '', most: '', time: '', verdict: 'no golden tensors' }];
  try {
    const feeds = {}, out = [];
    for (const input of f.inputs) feeds[input.name] = await golden(f, input);
    const session = await open(f), start = performance.now(), results = await session.run(feeds);
    const time = `${(performance.now() - start).toFixed(1)} ms`;
    for (const [name, file] of Object.entries(f.golden.outputs)) {
      const want = parseNpy(await load(file));
      const c = cosine(numbers(results[name].type, results[name].data), numbers(want.type, want.data, true));
      out.push({ output: name, cosine: c.cosine.toFixed(7), most: c.most.toPrecision(3), time, verdict: c.cosine >= least ? 'passed' : 'failed' });
    }
    return out;
  } catch (e) {
    return [{ output: e.message, cosine: '', most: '', time: '', verdict: 'failed' }];
  }
}

// ways are how a person sets an input: a name and a control.
function ways(f, input) {
  const list = [];
  if (f.golden) list.push(['golden', 'golden input', null]);
  if (input.kinds?.includes('picture')) list.push(['picture', 'picture', { type: 'file', accept: 'image/*' }]);
  if (input.kinds?.includes('sound')) list.push(['sound', 'sound', { type: 'file', accept: 'audio/*' }]);
  list.push(['npy', 'file of NumPy', { type: 'file', accept: '.npy' }], ['text', input.type === 'string' ? 'text, a line for each element' : 'numbers', { area: true }]);
  return list;
}

// field returns the controls of an input and a function that reads them.
function field(f, input) {
  const id = `${f.name}.${input.name}`, list = ways(f, input), controls = new Map();
  const select = make('select', { id }, ...list.map(([value, textContent]) => make('option', { value, textContent })));
  const box = make('fieldset', {}, make('legend', { textContent: `Input ${input.name}: ${input.type} [${input.dims.join(', ')}]` }), make('label', { htmlFor: id, textContent: 'Source ' }, select));
  for (const [value, text, kind] of list) {
    if (!kind) continue;
    const control = kind.area ? make('textarea', { rows: 3, spellcheck: false }) : make('input', kind);
    const label = make('label', { textContent: text[0].toUpperCase() + text.slice(1) + ' ' }, control);
    control.name = `${id}.${value}`;
    controls.set(value, { label, control });
    box.append(label);
  }
  if (input.note) box.append(make('p', { className: 'note', textContent: input.note }));
  const show = () => controls.forEach((c, value) => { c.label.hidden = value !== select.value; });
  select.addEventListener('change', show);
  show();
  return { box, read: () => read(f, input, select.value, controls.get(select.value)?.control) };
}

// read returns the tensor of an input.
async function read(f, input, way, control) {
  if (way === 'golden') return golden(f, input);
  if (way === 'text') {
    if (input.type === 'string') return new ort.Tensor('string', control.value.split('\n'), fitted(input.dims, control.value.split('\n').length));
    const values = control.value.split(/[\s,;[\]]+/).filter(Boolean).map(Number);
    if (values.some(Number.isNaN)) throw new Error(`${input.name}: the text has other words than numbers`);
    return tensor(input, values);
  }
  const file = control.files[0];
  if (!file) throw new Error(`${input.name}: choose a file`);
  if (way === 'npy') {
    const a = parseNpy(await file.arrayBuffer());
    return tensor(input, numbers(a.type, a.data, true), a.dims);
  }
  const { values, dims } = await (way === 'picture' ? picture : sound)(file, input);
  return tensor(input, values, dims);
}

// section returns the part of the page for a function.
function section(f) {
  const title = `f.${f.name}`, status = make('p', { role: 'status' }), outputs = make('div', { className: 'outputs' });
  status.setAttribute('role', 'status');
  const fields = f.inputs.map(input => [input.name, field(f, input)]);
  const run = make('button', { type: 'submit', textContent: `Run ${f.name}` });
  const form = make('form', {}, ...fields.map(([, x]) => x.box), run, status, outputs);
  form.addEventListener('submit', async event => {
    event.preventDefault();
    run.disabled = true;
    status.textContent = 'Running …';
    outputs.replaceChildren();
    try {
      const feeds = {};
      for (const [name, x] of fields) feeds[name] = await x.read();
      const session = await open(f), start = performance.now(), results = await session.run(feeds);
      status.textContent = `Done in ${(performance.now() - start).toFixed(1)} ms.`;
      for (const [name, t] of Object.entries(results)) outputs.append(result(f, name, t));
    } catch (e) {
      status.textContent = `Error: ${e.message}`;
    }
    run.disabled = false;
  });
  const s = make('section', {}, make('h2', { id: title, textContent: `${f.name} ${f.version}` }),
    make('p', { textContent: [f.type, f.modality, f.license].filter(Boolean).join(', ') + (f.description ? `. ${f.description}` : '') }), form);
  s.setAttribute('aria-labelledby', title);
  return s;
}

// result shows an output.
function result(f, name, t) {
  const box = make('div', {}, make('h3', { textContent: `Output ${name}: ${t.type} [${t.dims.join(', ')}]` }));
  if (t.type === 'string') return box.append(make('pre', { textContent: t.data.join('\n') })), box;
  const values = numbers(t.type, t.data), shape = t.dims.length === 4 && t.dims[0] === 1 ? t.dims.slice(1) : t.dims;
  if (shape.length === 3 && (shape[2] === 3 || shape[2] === 1) && shape[0] > 1) box.append(drawn(values, shape, `Output ${name} as a picture`));
  if (f.modality === 'audio' && f.type === 'decoder' && f.rate && shape.length <= 2) box.append(played(values, f.rate, name));
  let low = Infinity, high = -Infinity;
  for (const v of values) { low = Math.min(low, v); high = Math.max(high, v); }
  box.append(make('p', { textContent: `${values.length} numbers from ${low.toPrecision(6)} to ${high.toPrecision(6)}; the first are:` }),
    make('pre', { textContent: Array.from(values.subarray(0, 16), v => Number(v.toPrecision(6))).join(', ') }));
  const bytes = formatNpy(t.type, t.dims, t.data);
  box.append(make('a', { href: URL.createObjectURL(new Blob([bytes])), download: `${f.name}.${name}.npy`, textContent: `Save ${name}.npy` }));
  return box;
}

// drawn returns a picture of numbers: 0 to 255, or 0 to 1 if none is larger.
function drawn(values, [height, width, channels], label) {
  const canvas = make('canvas', { width, height }), context = canvas.getContext('2d'), image = context.createImageData(width, height);
  const scale = values.every(v => v >= 0 && v <= 1) ? 255 : 1;
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = values[i * channels + (channels === 3 ? c : 0)] * scale;
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', label);
  return canvas;
}

// played returns a player of samples from -1 to 1.
function played(values, rate, name) {
  const bytes = new ArrayBuffer(44 + 2 * values.length), view = new DataView(bytes);
  const text = (at, s) => [...s].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  text(0, 'RIFF'); text(8, 'WAVEfmt '); text(36, 'data');
  [[4, 36 + 2 * values.length], [16, 16], [24, rate], [28, 2 * rate], [40, 2 * values.length]].forEach(([at, v]) => view.setUint32(at, v, true));
  [[20, 1], [22, 1], [32, 2], [34, 16]].forEach(([at, v]) => view.setUint16(at, v, true));
  values.forEach((v, i) => view.setInt16(44 + 2 * i, Math.max(-32768, Math.min(32767, Math.round(v * 32767))), true));
  const player = make('audio', { controls: true, src: URL.createObjectURL(new Blob([bytes], { type: 'audio/wav' })) });
  player.setAttribute('aria-label', `Output ${name} as a sound`);
  return player;
}

async function start() {
  const build = await (await fetch('functions.json')).json();
  document.title = find('title').textContent = `Functions of ${build.name} ${build.version}`;
  if (!globalThis.crypto?.subtle) find('about').textContent += ' Digests are not compared, which needs HTTPS or this machine.';
  for (const f of build.functions) find('functions').append(section(f));
  find('check').disabled = false;
  find('check').addEventListener('click', () => check(build));
  document.documentElement.dataset.ready = 'yes';
}

start().catch(e => { find('about').textContent = `Error: ${e.message}`; });
