// Judges the pages of mm dashboard build; see scripts/dashboard.sh.
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import puppeteer from "puppeteer-core";

const { SHOTS: shots, SITE: site } = process.env;
const axe = readFileSync(shots + "/node_modules/axe-core/axe.min.js", "utf8");
const check = (ok, what) => {
  if (!ok || process.env.VERBOSE) console.log((ok ? "ok    " : "FAIL  ") + what);
  if (!ok) process.exitCode = 1;
};
const types = { html: "text/html; charset=utf-8", css: "text/css", svg: "image/svg+xml", png: "image/png", wav: "audio/wav" };

const server = createServer((req, res) => {
  try {
    const body = readFileSync(site + decodeURIComponent(new URL(req.url, "http://x").pathname));
    res.writeHead(200, { "Content-Type": types[req.url.split(/[?#]/)[0].split(".").pop()] || "application/octet-stream" }).end(body);
  } catch {
    res.writeHead(404).end();
  }
});
await new Promise((ok) => server.listen(0, "127.0.0.1", ok));
const pages = readdirSync(site).filter((f) => f.endsWith(".html")).sort();
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
let states = 0;
try {
  const served = process.env.SERVED;
  for (const url of [`http://127.0.0.1:${server.address().port}`, "file://" + site, served].filter(Boolean)) {
    const page = await browser.newPage();
    const complaints = [];
    page.on("console", (m) => { if (["error", "warning"].includes(m.type())) complaints.push(m.text()); });
    page.on("pageerror", (e) => complaints.push(String(e)));
    page.on("dialog", (d) => { complaints.push("a dialog: " + d.message()); d.dismiss(); });
    page.on("requestfailed", (r) => complaints.push("failed: " + r.url()));
    page.on("response", (r) => { if (r.status() >= 400) complaints.push(`${r.status()}: ${r.url()}`); });
    for (const name of pages) {
      const got = await page.goto(`${url}/${name}`, { waitUntil: "load" });
      if (url === served) {
        check((await got.text()) === readFileSync(`${site}/${name}`, "utf8"), `${name}: mm serve shows the bytes of mm dashboard build`);
        check((got.headers()["content-security-policy"] || "").startsWith("default-src 'none'; style-src 'self'"), `${name}: policy of mm serve`);
      }
      const styled = await page.evaluate(() => getComputedStyle(document.querySelector("main")).maxWidth !== "none");
      check(styled, `${name}: the style applies at ${url.split(":")[0]}`);
      if (url.startsWith("file")) continue;
      const broken = await page.evaluate(async () => {
        const out = [];
        for (const a of document.querySelectorAll("a[href], img[src], audio[src]")) {
          const to = new URL(a.getAttribute("href") || a.getAttribute("src"), location.href);
          if (to.pathname === location.pathname && to.hash && !document.getElementById(to.hash.slice(1))) out.push(to.href);
        }
        return out.concat([...document.querySelectorAll("img")].filter((i) => i.complete && !i.naturalWidth).map((i) => "broken image " + i.src));
      });
      check(broken.length === 0, `${name}: targets of links ${broken}`);
      const left = await page.evaluate(() => document.querySelectorAll("script, style, [style], [onclick], [onerror], iframe, object, embed, form, base").length);
      check(left === 0, `${name}: ${left} elements of scripts, styles or forms`);
      for (const scheme of url === served ? ["light"] : ["light", "dark"]) {
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
        for (const width of url === served ? [820] : [360, 820, 1440]) {
          await page.setViewport({ width, height: 900 });
          const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth ? [...document.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest(".scroll")).map((e) => e.tagName + "." + e.className).slice(0, 5) : null);
          check(wide === null, `${name}: no horizontal scrolling at ${width} pixels: ${wide}`);
          await page.evaluate(axe);
          const found = await page.evaluate(async () => (await window.axe.run()).violations.map((v) => v.id + ": " + v.nodes.slice(0, 2).map((n) => n.html.slice(0, 160)).join(" | ")));
          check(found.length === 0, `${name}: axe, ${width} pixels, ${scheme}: ${found.length} violations ${found.join("\n      ")}`);
          states++;
          if (url !== served && (process.env.ALL || !/^samples-.*-[2-9]\d*\.html|^samples-.*-1\d+\.html/.test(name))) await page.screenshot({ path: `${shots}/${name.replace(".html", "")}-${width}${scheme === "dark" ? "-dark" : ""}.png`, fullPage: true });
        }
      }
      // Every page is reachable by keyboard: first the skip link, then the navigation.
      await page.evaluate(() => { document.activeElement.blur(); window.scrollTo(0, 0); });
      await page.keyboard.press("Tab");
      check(await page.evaluate(() => document.activeElement.className) === "skip", `${name}: Tab reaches the skip link first`);
      await page.keyboard.press("Tab");
      await page.keyboard.press("Tab");
      check(await page.evaluate(() => !!document.activeElement.closest("nav")), `${name}: Tab reaches the navigation`);
    }
    check(complaints.length === 0, `no complaints of the browser at ${url}: ${[...new Set(complaints)].join("; ")}`);
    await page.close();
  }
  console.log(`${pages.length} pages, ${states} states judged by axe`);
} finally {
  await browser.close();
  server.close();
}
