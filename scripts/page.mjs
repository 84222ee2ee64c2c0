// Drives the web page of mm serve; see scripts/page.sh.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { readFileSync, writeFileSync } from "node:fs";
import { deflateSync, crc32 } from "node:zlib";
import puppeteer from "puppeteer-core";

const shots = process.env.SHOTS;
const axe = readFileSync(shots + "/node_modules/axe-core/axe.min.js", "utf8");
const check = (ok, what) => {
  console.log((ok ? "ok    " : "FAIL  ") + what);
  if (!ok) process.exitCode = 1;
};

// violations runs axe in the page.
async function violations(page) {
  await page.evaluate(axe);
  return page.evaluate(async () => (await window.axe.run()).violations.map((v) => v.id));
}

// picture writes a red PNG.
function picture(path) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const head = Buffer.alloc(4), tail = Buffer.alloc(4);
    head.writeUInt32BE(data.length);
    tail.writeUInt32BE(crc32(body));
    return Buffer.concat([head, body, tail]);
  };
  const size = Buffer.from([0, 0, 0, 64, 0, 0, 0, 64, 8, 2, 0, 0, 0]);
  const rows = Buffer.concat(Array.from({ length: 64 }, () => Buffer.concat([Buffer.from([0]), Buffer.alloc(192, Buffer.from([255, 0, 0]))])));
  writeFileSync(path, Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), chunk("IHDR", size), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]));
}

const server = spawn(process.env.MM, ["serve", "--addr", "127.0.0.1:0", "--json", "--stdin-lifeline", "--keys", shots + "/keys", "p-lite:0.1.0"], { stdio: ["pipe", "pipe", "inherit"] });
const first = await new Promise((ok) => createInterface({ input: server.stdout }).once("line", ok));
const url = JSON.parse(first).url;
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
try {
  const page = await browser.newPage();
  const complaints = [];
  page.on("console", (m) => { if (m.type() === "error" && !m.text().includes("401")) complaints.push(m.text()); });
  page.on("pageerror", (e) => complaints.push(String(e)));
  await page.goto(url + "/page", { waitUntil: "load" });
  await page.waitForFunction(() => !document.getElementById("unlock").hidden);
  check(true, "the page asks for a key");

  // focus moves by Tab until the element with the id has it.
  const tabTo = async (id) => {
    for (let i = 0; i < 40; i++) {
      if (await page.evaluate(() => document.activeElement && document.activeElement.id) === id) return true;
      await page.keyboard.press("Tab");
    }
    return false;
  };
  check(await tabTo("key"), "Tab reaches the key");
  await page.keyboard.type("secret-key-of-the-page");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("#parts tr").length > 3);
  check(true, "the parts of the build are listed");

  for (const width of [360, 820, 1440]) {
    await page.setViewport({ width, height: 900 });
    await page.screenshot({ path: `${shots}/page-${width}.png`, fullPage: true });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
    const out = await page.evaluate(() => [...document.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".scroll")).map((e) => e.tagName + "#" + e.id));
    check(!wide, `no horizontal scrolling at ${width} pixels ${out}`);
    const found = await violations(page);
    check(found.length === 0, `axe at ${width} pixels: ${found.length} violations ${found}`);
  }

  check(await tabTo("text"), "Tab reaches the message");
  await page.keyboard.type("what is in the picture?");
  picture(shots + "/red.png");
  await (await page.$("#attach")).uploadFile(shots + "/red.png");
  await page.waitForSelector("#files li");
  await page.focus("#text");
  await page.keyboard.down("Control");
  await page.keyboard.press("Enter");
  await page.keyboard.up("Control");
  await page.waitForFunction(() => /tokens,/.test(document.getElementById("status").textContent), { timeout: 60000 });
  check((await page.$$eval("#log .turn", (l) => l.length)) >= 2, "an answer to a message with a picture");
  check(await page.$eval("#log img", (i) => i.naturalWidth === 64), "the picture is shown");

  await page.type("#text", "<img src=x onerror=alert(1)>");
  check(await tabTo("send"), "Tab reaches Send");
  await page.keyboard.press("Space");
  await page.waitForFunction(() => document.querySelectorAll("#log .turn").length >= 3);
  await page.waitForFunction(() => !document.getElementById("send").disabled, { timeout: 60000 });
  check(await page.evaluate(() => document.querySelectorAll("#log img[src=x]").length === 0), "text is not parsed as HTML");
  await page.screenshot({ path: `${shots}/page-chat.png` });
  const found = await violations(page);
  check(found.length === 0, `axe with a conversation: ${found.length} violations ${found}`);
  check(complaints.length === 0, "no errors in the console: " + complaints.join("; "));
} finally {
  await browser.close();
  server.stdin.end();
}
await new Promise((ok) => server.once("exit", ok));
