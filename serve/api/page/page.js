"use strict";

const $ = (id) => document.getElementById(id);
let key = "", builds = [], turns = [], files = [], abort = null;

// make returns an element with text. Text of models and files is never parsed as HTML.
function make(tag, text = "", attributes = {}) {
  const e = document.createElement(tag);
  e.textContent = text;
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  return e;
}

function headers() {
  const h = { "Content-Type": "application/json" };
  if (key) h.Authorization = "Bearer " + key;
  return h;
}

// failure returns the message of an error response.
async function failure(response) {
  try {
    const e = (await response.json()).error;
    return e.message || String(e);
  } catch {
    return response.status + " " + response.statusText;
  }
}

async function load() {
  const response = await fetch("/page/builds", { headers: headers() });
  $("unlock").hidden = response.status !== 401;
  if (!response.ok) {
    $("status").textContent = await failure(response);
    return;
  }
  const got = await response.json();
  builds = got.builds;
  document.title = "mm " + got.version;
  $("model").replaceChildren(...builds.map((b) => make("option", b.model, { value: b.model })));
  $("status").textContent = "";
  show();
}

const current = () => builds.find((b) => b.model === $("model").value);

// show describes the chosen build.
function show() {
  const b = current();
  if (!b) return;
  $("name").textContent = b.name + (b.version ? " " + b.version : "");
  const facts = [b.description, b.target && "Target " + b.target, b.license && "License " + b.license, b.digest || "Your own files, unverified"];
  $("about").textContent = facts.filter(Boolean).join("\n");
  $("parts").replaceChildren(...b.parts.map((p) => {
    const row = make("tr");
    const digest = make("td");
    if (p.digest) digest.append(make("code", p.digest.replace("sha256:", "").slice(0, 12), { title: p.digest }));
    row.append(make("th", p.role, { scope: "row" }), make("td", p.name + (p.version ? "@" + p.version : "")), make("td", p.quant || ""), digest, make("td", (p.limits || []).join(", ")));
    return row;
  }));
  $("output").replaceChildren(...b.outputs.map((o) => make("option", o, { value: o })));
}

// say adds a message to the log and returns the element of its text.
function say(who, text = "", kind = "") {
  const item = make("div", "", { class: "turn " + kind });
  const body = make("span", text);
  item.append(make("strong", who), body);
  $("log").append(item);
  $("log").scrollTop = $("log").scrollHeight;
  return body;
}

function media(modality, type, data) {
  const tag = { image: "img", audio: "audio", video: "video" }[modality];
  const e = make(tag, "", { src: "data:" + type + ";base64," + data });
  if (tag === "img") e.alt = "Picture";
  else e.controls = true;
  return e;
}

// parse yields the events of a stream.
async function* parse(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
      let name = "", data = "";
      for (const line of rest.slice(0, end).split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) yield { name, data: JSON.parse(data) };
    }
  }
}

async function ask(event) {
  event.preventDefault();
  if (abort || (!$("text").value && files.length === 0)) return;
  const parts = files.map((f) => ({ type: f.modality, data: f.data }));
  if ($("text").value) parts.push({ type: "text", text: $("text").value });
  say("You", $("text").value).append(...files.map((f) => media(f.modality, f.type, f.data)));
  turns.push({ role: "user", parts });
  $("text").value = "";
  files = [];
  listFiles();
  await answer();
}

// answer asks the build and shows its answer as it comes.
async function answer() {
  abort = new AbortController();
  $("stop").disabled = false;
  $("send").disabled = true;
  $("status").textContent = "Waiting";
  const body = { build: $("model").value, stream: true, messages: turns, preferences: { max_tokens: Number($("tokens").value) }, outputs: [$("output").value] };
  let span = null, complete = false;
  try {
    const response = await fetch("/infer", { method: "POST", headers: headers(), body: JSON.stringify(body), signal: abort.signal });
    if (!response.ok) throw new Error(await failure(response));
    for await (const e of parse(response.body)) {
      switch (e.name) {
        case "text":
          span ||= say($("model").value);
          span.textContent += e.data.text;
          break;
        case "reasoning": say("Reasoning", e.data.text, "reasoning"); break;
        case "tool": say("Tool " + e.data.name, JSON.stringify(e.data.arguments ?? {}) + " → " + e.data.result, "tool"); break;
        case "output": (span ||= say($("model").value)).append(media(e.data.modality, e.data.media_type, e.data.data)); break;
        case "error": throw new Error(e.data.error.message || e.data.error);
        case "done":
          complete = true;
          turns.push({ role: "assistant", parts: [{ type: "text", text: e.data.text }] });
          $("status").textContent = e.data.usage.generated_tokens + " tokens, " + e.data.usage.tokens_per_second.toFixed(1) + " a second, ended by " + e.data.stop;
      }
      $("log").scrollTop = $("log").scrollHeight;
    }
    if (!complete) throw new Error("the answer is incomplete: the connection broke");
  } catch (e) {
    $("status").textContent = e.name === "AbortError" ? "Stopped" : "Error: " + e.message;
    turns.pop(); // the model has not answered it
  } finally {
    abort = null;
    $("stop").disabled = true;
    $("send").disabled = false;
    $("text").focus();
  }
}

// attach reads the chosen files.
async function attach() {
  for (const f of $("attach").files) {
    const data = await new Promise((ok, bad) => {
      const r = new FileReader();
      r.onload = () => ok(r.result.slice(r.result.indexOf(",") + 1));
      r.onerror = () => bad(r.error);
      r.readAsDataURL(f);
    });
    files.push({ name: f.name, type: f.type, modality: f.type.split("/")[0], data });
  }
  $("attach").value = "";
  listFiles();
}

function listFiles() {
  $("files").replaceChildren(...files.map((f, i) => {
    const item = make("li", f.name + " ");
    const drop = make("button", "Remove", { type: "button", "aria-label": "Remove " + f.name });
    drop.onclick = () => { files.splice(i, 1); listFiles(); };
    item.append(drop);
    return item;
  }));
}

// watch shows the load of the server.
async function watch() {
  if (document.hidden || !$("unlock").hidden) return;
  try {
    const response = await fetch("/metrics", { headers: headers() });
    if (!response.ok) return;
    const text = await response.text();
    const value = (name) => Number((text.match(new RegExp("^" + name + " (.*)$", "m")) || [])[1] || 0);
    $("load").textContent = value("mm_requests_running") + " running, " + value("mm_requests_waiting") + " waiting, " + value("mm_generated_tokens_total") + " tokens generated";
  } catch {
    $("load").textContent = "not connected";
  }
}

$("unlock").onsubmit = (e) => { e.preventDefault(); key = $("key").value; $("key").value = ""; load(); };
$("ask").onsubmit = ask;
$("stop").onclick = () => abort && abort.abort();
$("new").onclick = () => { if (abort) return; turns = []; $("log").replaceChildren(); $("status").textContent = ""; };
$("attach").onchange = attach;
$("model").onchange = () => { turns = []; $("log").replaceChildren(); show(); };
$("text").onkeydown = (e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) $("ask").requestSubmit(); };
load();
watch();
setInterval(watch, 2000);
