import createClient, { type Client as Fetcher } from "openapi-fetch";
import type { components, paths } from "./schema.js";

export type { components, paths } from "./schema.js";
export type InferRequest = Omit<components["schemas"]["InferRequest"], "stream">;
export type InferAnswer = components["schemas"]["InferAnswer"];

/** One event of a streamed answer of /infer. */
export type Event =
  | { type: "text" | "reasoning"; text: string }
  | { type: "tool"; name: string; arguments?: unknown; result: string }
  | { type: "output"; modality: string; media_type: string; data: string }
  | ({ type: "done" } & InferAnswer);

export type Job = components["schemas"]["Job"];

/** One numbered event of a job. */
export type JobEvent = { number: number } & (
  | { type: "state"; data: { state: Job["state"] } }
  | { type: "step"; data: { step: string; detail: string } }
  | { type: "progress"; data: { task: string; done: number; total: number } }
  | { type: "done"; data: Job }
);

/** A request that the server refused, or a stream that ended with an error; then status is 0. */
export class StatusError extends Error {
  constructor(message: string, readonly status: number, readonly code?: string, readonly param?: string) {
    super(message);
    this.name = "StatusError";
  }
}

/** Where the server is, and the key of the client. */
export interface Options {
  baseUrl: string;
  apiKey?: string;
  fetch?: typeof fetch;
}

/** A client of mm serve. `api` has every path of the OpenAPI document, typed. */
export class Client {
  readonly api: Fetcher<paths>;
  private readonly url: string;
  private readonly headers: Record<string, string>;
  private readonly fetch: typeof fetch;

  constructor(options: Options) {
    this.url = options.baseUrl.replace(/\/(v1\/?)?$/, "");
    this.headers = options.apiKey ? { Authorization: `Bearer ${options.apiKey}` } : {};
    this.fetch = options.fetch ?? globalThis.fetch;
    this.api = createClient<paths>({ baseUrl: this.url, headers: this.headers, fetch: this.fetch });
  }

  /** Returns the answer to a request. */
  async infer(body: InferRequest, signal?: AbortSignal): Promise<InferAnswer> {
    const response = await this.post({ ...body, stream: false }, signal);
    return (await response.json()) as InferAnswer;
  }

  /** Yields the events of the answer to a request. Leaving the loop cancels the request. */
  async *stream(body: InferRequest, signal?: AbortSignal): AsyncGenerator<Event> {
    const abort = new AbortController();
    const stop = () => abort.abort(signal?.reason);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    try {
      const response = await this.post({ ...body, stream: true }, abort.signal);
      for await (const { name, data } of events(response)) {
        const value = JSON.parse(data) as Record<string, unknown> | null;
        if (value === null) continue;
        if (name === "error") throw failure(0, value);
        yield { ...value, type: name } as Event;
        if (name === "done") return;
      }
      throw new StatusError("the stream ended before the answer was complete", 0);
    } finally {
      signal?.removeEventListener("abort", stop);
      abort.abort();
    }
  }

  /** Yields the text of the answer to a request, in pieces. */
  async *run(body: InferRequest, signal?: AbortSignal): AsyncGenerator<string> {
    for await (const event of this.stream(body, signal)) {
      if (event.type === "text") yield event.text;
    }
  }

  /** Starts a job that composes the build of a graph of the server. */
  assemble(body: components["schemas"]["AssembleRequest"], signal?: AbortSignal): Promise<Job> {
    return this.job("POST", "/assemble", body, signal);
  }

  /** Starts a job that asks a build the tasks of a suite of the server. */
  evaluate(body: components["schemas"]["EvaluateRequest"], signal?: AbortSignal): Promise<Job> {
    return this.job("POST", "/evaluate", body, signal);
  }

  /** Cancels a job, or drops one that has ended. */
  cancel(id: string, signal?: AbortSignal): Promise<Job> {
    return this.job("DELETE", `/jobs/${encodeURIComponent(id)}`, undefined, signal);
  }

  /** Yields the events of a job after a number until it ends. A stream that breaks is resumed twice. */
  async *watch(id: string, after = 0, signal?: AbortSignal): AsyncGenerator<JobEvent> {
    for (let broken = 0; ; broken++) {
      if (broken > 0) await new Promise((ok) => setTimeout(ok, 250 * broken));
      const abort = new AbortController();
      const stop = () => abort.abort(signal?.reason);
      signal?.addEventListener("abort", stop);
      if (signal?.aborted) stop();
      try {
        const response = await this.send("GET", `/jobs/${encodeURIComponent(id)}/events`, undefined, abort.signal, { "Last-Event-ID": String(after) });
        if (response.status === 204) return;
        for await (const event of events(response)) {
          after = Number(event.id);
          broken = 0;
          yield { number: after, type: event.name, data: JSON.parse(event.data) } as JobEvent;
          if (event.name === "done") return;
        }
        throw new StatusError("the stream ended before the job", 0);
      } catch (e) {
        if (signal?.aborted || broken >= 2 || (e instanceof StatusError && e.status !== 0)) throw e;
      } finally {
        signal?.removeEventListener("abort", stop);
        abort.abort();
      }
    }
  }

  private async job(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<Job> {
    return (await (await this.send(method, path, body, signal)).json()) as Job;
  }

  private post(body: unknown, signal?: AbortSignal): Promise<Response> {
    return this.send("POST", "/infer", body, signal);
  }

  private async send(method: string, path: string, body: unknown, signal?: AbortSignal, more: Record<string, string> = {}): Promise<Response> {
    const json = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = { ...this.headers, ...more, ...(body === undefined ? {} : { "Content-Type": "application/json" }) };
    const response = await this.fetch(this.url + path, { method, headers, signal: signal ?? null, ...json });
    if (response.ok) return response;
    const text = await response.text();
    try {
      throw failure(response.status, JSON.parse(text));
    } catch (e) {
      throw e instanceof StatusError ? e : new StatusError(text.slice(0, 500), response.status);
    }
  }
}

/** Returns the error in an envelope of the server. */
function failure(status: number, body: unknown): StatusError {
  const outer = body as { error?: unknown };
  const e = (outer.error ?? outer) as { message?: string; code?: string; param?: string } | string;
  if (typeof e === "string") return new StatusError(e, status);
  return new StatusError(e.message ?? "no message", status, e.code ?? undefined, e.param ?? undefined);
}

/** Yields the server-sent events of a response. */
async function* events(response: Response): AsyncGenerator<{ name: string; data: string; id: string }> {
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "", name = "", id = "";
  let data: string[] = [];
  for (;;) {
    const { value, done } = await reader.read();
    rest += decoder.decode(value, { stream: !done });
    // A carriage return at the end may be the first half of a line end.
    for (let m; (m = /\r\n|\n|\r(?!$)/.exec(rest)); ) {
      const line = rest.slice(0, m.index);
      rest = rest.slice(m.index + m[0].length);
      if (line === "") {
        if (data.length > 0) yield { name: name || "message", data: data.join("\n"), id };
        name = "";
        data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") name = text;
      if (field === "id") id = text;
      if (field === "data") data.push(text);
    }
    if (done) return;
  }
}
