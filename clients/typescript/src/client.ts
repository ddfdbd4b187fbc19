import { Held, ClientError, NOTHING, Unusable, type Version } from "./held.js";
import { isObject, type Json } from "./json.js";
import { kept, restored, webStore, type Store, type WebStorage } from "./store.js";
import { accepted, backOff, lines, sleep } from "./stream.js";

export interface Options {
  /** A grant or a token of the server, or a function that returns one for each request. */
  grant?: string | (() => string | Promise<string>);
  /** Where state and token are kept: localStorage, or an object with load() and save(text). */
  store?: Store | WebStorage;
  /** A version to begin with, if there is no store: both, or none. */
  token?: string;
  state?: unknown;
  /** Milliseconds without a byte after which the connection counts as lost. Servers send one every 15 s. */
  silence?: number;
  /** The longest wait between two attempts, in milliseconds. */
  longestWait?: number;
  fetch?: typeof fetch;
}

export interface Written {
  id: string;
  /** Of the version after the request. */
  token: string;
  /** `created`, `appended`, `deleted` or `unchanged`. */
  outcome: string;
}

type Listener<State> = (state: State | null, client: ModelClient<State>) => void;
type ErrorListener = (error: unknown) => void;

const ATTEMPTS = 5;
const SILENCE = 40_000;
const LONGEST_WAIT = 10_000;

/** Follows one id of a model: holds its state, and reports each new one. */
export class ModelClient<State = any, Diff = any> {
  /** Resolves with the client at the first frame; rejects if there is an error before it. */
  readonly ready: Promise<this>;
  /** Why the client has ended; null while it follows, and after close(). */
  error: unknown = null;
  /** Why the newest version is not in the store: it is full, for example. What is there is an older version. */
  storeError: unknown = null;

  private readonly listeners = new Set<Listener<State>>();
  private readonly errorListeners = new Set<ErrorListener>();
  private readonly ending = new AbortController();
  private readonly held: Held;
  private readonly store: Store | null;
  private failures = 0;
  private fail: (error: unknown) => void = () => undefined;

  constructor(
    private readonly url: string,
    readonly model: string,
    readonly id: string,
    private readonly options: Options = {},
  ) {
    const { token, state, store } = options;
    const first = token === undefined ? NOTHING : { ...NOTHING, token, state: (state ?? null) as Json };
    this.held = new Held(id, first);
    this.store = store === undefined ? null : "load" in store ? store : webStore(store, `tidegate:${this.path}`);
    let resolve: () => void = () => undefined;
    this.ready = new Promise((resolved, rejected) => {
      resolve = () => resolved(this);
      this.fail = rejected;
    });
    this.ready.catch(() => undefined); // onError reports it too
    this.follow(resolve).catch((error: unknown) => {
      if (this.ending.signal.aborted) return;
      this.error = error;
      this.ending.abort();
      this.fail(error);
      for (const listener of [...this.errorListeners]) called(listener, error);
    });
  }

  /** The state. Parts that a change leaves alone are the same objects as before it. Do not change it. */
  get state(): State | null {
    return this.held.version.state as State | null;
  }

  /** The token of the version that is held; null before the first frame. */
  get token(): string | null {
    return this.held.version.token;
  }

  /** Whether the id does not exist. */
  get gone(): boolean {
    return this.held.version.gone;
  }

  /** The last frame that changed the state: `state`, `patch` or `gone`. */
  get kind(): Version["kind"] {
    return this.held.version.kind;
  }

  /** Call a function with the present state, if there is one, and with each later one. Returns what ends it. */
  subscribe(listener: Listener<State>): () => void {
    this.listeners.add(listener);
    if (this.token !== null) called(listener, this.state, this);
    return () => void this.listeners.delete(listener);
  }

  /** Call a function with the error that ends the client. */
  onError(listener: ErrorListener): () => void {
    this.errorListeners.add(listener);
    if (this.error !== null) called(listener, this.error);
    return () => void this.errorListeners.delete(listener);
  }

  /** End the connection. The state stays. */
  close(): void {
    this.ending.abort();
    this.listeners.clear();
    this.fail(new ClientError("client-closed", "the client was closed before the first frame", "open another one"));
  }

  /** Append a diff. With `expect` only if that is the current version: else ClientError `other-version`. */
  append(diff: Diff, expect?: string): Promise<Written> {
    return this.request("POST", `${this.path}/diffs`, diff, expect);
  }

  /** Create the id, with or without a first diff. */
  create(diff?: Diff): Promise<Written> {
    const body = diff === undefined ? { id: this.id } : { id: this.id, diff };
    return this.request("POST", `${this.base}/${encode(this.model)}`, body);
  }

  /** Delete the id. */
  delete(expect?: string): Promise<Written> {
    return this.request("DELETE", this.path, undefined, expect);
  }

  private get base(): string {
    return this.url.replace(/\/+$/, "");
  }

  private get path(): string {
    return `${this.base}/${encode(this.model)}/${encode(this.id)}`;
  }

  private get fetch(): typeof fetch {
    return this.options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  private async headers(more: Record<string, string>): Promise<Record<string, string>> {
    const { grant } = this.options;
    const found = typeof grant === "function" ? await grant() : grant;
    return found === undefined ? more : { ...more, Authorization: `Bearer ${found}` };
  }

  /** Connect again and again, until there is an error that no attempt would change. */
  private async follow(ready: () => void): Promise<void> {
    const { signal } = this.ending;
    await this.restore();
    while (!signal.aborted) {
      try {
        await this.stream(ready);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ClientError && error.code === "bad-token") this.forget();
        else if (!retryable(error) && !this.renewable(error)) throw error;
      }
      this.failures += 1;
      await sleep(backOff(this.failures, this.options.longestWait ?? LONGEST_WAIT), signal);
    }
  }

  private async restore(): Promise<void> {
    try {
      const found = restored(this.model, this.id, await this.store?.load());
      if (found === null) return;
      this.held.version = found;
    } catch (error) {
      this.storeError = error;
      return;
    }
    this.notify();
  }

  private async save(): Promise<void> {
    try {
      await this.store?.save(kept(this.model, this.id, this.held.version));
      this.storeError = null;
    } catch (error) {
      this.storeError = error;
    }
  }

  /** Whether the next request has another grant. */
  private renewable(error: unknown): boolean {
    const ended = error instanceof ClientError && error.code === "grant-ended";
    return ended && typeof this.options.grant === "function";
  }

  private forget(): void {
    try {
      this.held.mismatched();
    } catch (error) {
      if (!(error instanceof Unusable)) throw error;
    }
  }

  /** One connection, until it ends. */
  private async stream(ready: () => void): Promise<void> {
    const silence = this.options.silence ?? SILENCE;
    const connection = new AbortController();
    const end = (): void => connection.abort();
    let timer = setTimeout(end, silence);
    const heard = (): void => {
      clearTimeout(timer);
      timer = setTimeout(end, silence);
    };
    this.ending.signal.addEventListener("abort", end);
    try {
      const token = this.held.asked;
      const query = token === null ? "" : `?hash=${encodeURIComponent(token)}`;
      const headers = await this.headers({ Accept: "application/x-ndjson" });
      const options: RequestInit = { headers, signal: connection.signal, cache: "no-store" };
      const response = await accepted(await this.fetch(`${this.path}/events${query}`, options));
      if (!response.headers.get("content-type")?.includes("ndjson") || response.body === null) {
        throw new Unusable("the response is no stream of frames");
      }
      for await (const line of lines(response.body, heard)) {
        if (this.ending.signal.aborted) return;
        const changed = await this.held.receive(line);
        this.failures = 0;
        if (changed) await this.save();
        ready();
        if (changed) this.notify();
      }
    } finally {
      clearTimeout(timer);
      this.ending.signal.removeEventListener("abort", end);
      connection.abort();
    }
  }

  private notify(): void {
    for (const listener of [...this.listeners]) called(listener, this.state, this);
  }

  /** Send a write. Its Idempotency-Key makes it safe to send it again when a response is lost. */
  private async request(method: string, url: string, body: unknown, expect?: string): Promise<Written> {
    const more: Record<string, string> = { "Idempotency-Key": key() };
    if (body !== undefined) more["Content-Type"] = "application/json";
    if (expect !== undefined) more["If-Match"] = `"${expect}"`;
    for (let attempt = 1; ; attempt++) {
      try {
        const headers = await this.headers(more);
        const signal = AbortSignal.timeout(this.options.silence ?? SILENCE);
        const options: RequestInit = body === undefined ? {} : { body: JSON.stringify(body) };
        const response = await accepted(await this.fetch(url, { ...options, method, headers, signal }));
        if (response.status === 202) throw undecided();
        const found = (await response.json()) as Json;
        if (isObject(found)) return found as unknown as Written;
        throw new Unusable("the response is no JSON object");
      } catch (error) {
        if (!retryable(error)) throw error;
        if (attempt === ATTEMPTS) throw new ClientError("server-unreachable", `no response: ${String(error)}`, "try again later");
        await sleep(backOff(attempt, this.options.longestWait ?? LONGEST_WAIT), new AbortController().signal);
      }
    }
  }
}

/** Follow one id of a model. */
export function open<State = any, Diff = any>(
  url: string,
  model: string,
  id: string,
  options: Options = {},
): ModelClient<State, Diff> {
  return new ModelClient<State, Diff>(url, model, id, options);
}

/** Call a listener. What it throws is reported as an uncaught error, and does not end the client. */
function called<Arguments extends unknown[]>(listener: (...given: Arguments) => void, ...given: Arguments): void {
  try {
    listener(...given);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

/** As a part of a path. A name of dots alone would be taken for a folder. */
function encode(name: string): string {
  return encodeURIComponent(name).replace(/^\.+$/, (dots) => "%2E".repeat(dots.length));
}

function undecided(): ClientError {
  const message = "the request is in the log, and the app has not decided on it in time";
  return new ClientError("not-decided", message, "check that the app is running", 202);
}

function key(): string {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether a later attempt may succeed: a lost connection, a restart, a full server. */
function retryable(error: unknown): boolean {
  if (error instanceof Unusable || error instanceof TypeError) return true; // fetch: TypeError
  return error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError");
}
