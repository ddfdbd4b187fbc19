// The live state of one id of a model, by the client that the server serves to browsers (/client.js).
//
//   connecting ── first frame ──> live ── disconnected ──> stale ── next frame ──> live
//        away: switched off, the tab is hidden, or another tab follows a model. Then there is no stream.
//
// Browsers open six connections to a server. The summaries of all tabs take up to four (slots.ts), and one is for
// models: it belongs to the visible tab that opened its stream last. The version that is held stays, so a
// return needs one frame, whatever happened meanwhile.

import { get, query } from "./api";
import { clock } from "./clock.svelte";
import type { Json } from "./json";
import { keyInPath as idInPath } from "./keys";
import { type Frame, operations } from "./models";
import { session } from "./session.svelte";
import { takeLock } from "./slots";

const CLIENT = "/client.js";
const LOCK = "tidegate.model";
const MOST_SEEN = 20;
const MOST_WAITS = 50;

interface Client {
  readonly ready: Promise<unknown>; readonly state: Json; readonly token: string | null; readonly gone: boolean;
  subscribe(listener: () => void): () => void; onError(listener: (error: ClientError) => void): () => void; close(): void;
}
export interface ClientError extends Error { code: string; hint: string; status: number }
interface Seen { frame: Frame; bytes: number }
type Returned = Seen & { seconds: number };
type Open = (url: string, model: string, id: string, options: Record<string, unknown>) => Client;

export class ModelLive {
  link = $state<"connecting" | "live" | "stale" | "away">("connecting");
  /** Why there is no stream. */
  why = $state<"switch" | "hidden" | "tab" | null>(null);
  state = $state.raw<Json>(null);
  token = $state<string | null>(null);
  gone = $state(false);
  error = $state.raw<ClientError | null>(null);
  /** The newest frame that changed something, and when it came. */
  last = $state.raw<{ frame: Frame; at: number } | null>(null);
  /** The first frame after the last return, and for how long nothing was heard. */
  returned = $state.raw<Returned | null>(null);
  /** After a return, until the server has read everything that was in the log then: it may not know the newest version yet. */
  catching = $state(false);
  /** Counts the versions that were taken. */
  taken = $state(0);

  #client: Client | null = null;
  #release: (() => void) | null = null;
  #left: number | null = null;
  #opened = 0;
  /** The first frame of the connection, and the newest ones. */
  #first: Seen | null = null;
  #seen: Seen[] = [];

  constructor(readonly model: string, readonly id: string, readonly app: string | null) {}

  async open(): Promise<void> {
    if (this.#client !== null) return;
    const turn = (this.#opened += 1);
    this.why = null;
    this.error = null;
    this.returned = null;
    this.link = "connecting";
    const release = await takeLock(LOCK, { steal: true }, () => this.leave("tab"));
    if (turn !== this.#opened || release === null) return release?.();
    this.#release = release;
    try {
      const { open } = (await import(/* @vite-ignore */ CLIENT)) as { open: Open };
      if (turn === this.#opened) this.#follow(open);
    } catch (error) {
      if (turn === this.#opened) this.#failed(error as ClientError);
    }
  }

  /** Ends the stream, and keeps the version. */
  leave(why: "switch" | "hidden" | "tab"): void {
    this.#opened += 1;
    this.#end();
    this.link = "away";
    this.why = why;
    this.catching = false;
    this.#left ??= Date.now();
  }

  close(): void {
    this.#opened += 1;
    this.#end();
  }

  #end(): void {
    this.#client?.close();
    this.#client = null;
    this.#release?.();
    this.#release = null;
  }

  #follow(open: Open): void {
    const client = (this.#client = open("", this.model, this.id, {
      ...(session.token === "" ? {} : { grant: () => session.token }),
      ...(this.token === null || this.gone ? {} : { token: this.token, state: this.state }),
      longestWait: 4000,
      fetch: (url: string, options: RequestInit) => this.#fetch(url, options),
    }));
    client.subscribe(() => this.#take(client));
    client.onError((error) => {
      if (client === this.#client) this.#failed(error);
    });
    client.ready.then(() => client === this.#client && this.#back(client), () => {});
  }

  /** A request of the client, whose lines are read here as well. */
  async #fetch(url: string, options: RequestInit): Promise<Response> {
    const named = this.app === null ? url : `${url}${url.includes("?") ? "&" : "?"}app=${encodeURIComponent(this.app)}`;
    const client = this.#client;
    const stale = () => {
      if (client === this.#client && this.link !== "away") this.link = this.token === null ? "connecting" : "stale";
    };
    let response: Response;
    try {
      response = await fetch(named, { ...options, credentials: "omit", redirect: "error" });
    } catch (error) {
      stale();
      throw error;
    }
    if (!response.ok || response.body === null) return response;
    this.#first = null;
    const decoder = new TextDecoder();
    let rest = "";
    const seen = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
        rest = lines.pop()!;
        for (const line of lines) this.#see(line);
        controller.enqueue(chunk);
      },
    });
    const body = response.body.pipeThrough(seen);
    options.signal?.addEventListener("abort", stale);
    return new Response(body, { status: response.status, headers: response.headers });
  }

  #see(line: string): void {
    if (line.trim() === "") return;
    try {
      const seen = { frame: JSON.parse(line) as Frame, bytes: new TextEncoder().encode(line).length };
      this.#first ??= seen;
      this.#seen = [...this.#seen, seen].slice(-MOST_SEEN);
    } catch {
      // the client reports it
    }
  }

  /** The client has checked and applied a frame. */
  #take(client: Client): void {
    if (client !== this.#client || client.token === this.token) return;
    this.link = "live";
    this.state = client.state;
    this.token = client.token;
    this.gone = client.gone;
    this.taken += 1;
    const seen = this.#seen.find(({ frame }) => frame.token === client.token);
    if (seen !== undefined) this.last = { frame: seen.frame, at: clock.now };
  }

  /** The first frame of a connection. */
  #back(client: Client): void {
    this.#take(client);
    this.link = "live";
    if (this.#left === null || this.#first === null) return;
    const first = { ...this.#first, seconds: (Date.now() - this.#left) / 1000 };
    this.#left = null;
    if (first.frame.event !== "patch" || first.frame.from !== first.frame.token) this.returned = first;
    else void this.#caughtUp(client, first);
  }

  /** The first frame changed nothing: waits until the server is where the log ended, and for the frame if it has a newer version then. */
  async #caughtUp(client: Client, first: Returned): Promise<void> {
    const held = first.frame.token;
    this.catching = true;
    this.returned = null;
    try {
      const found = await get<{ token: string }>(`/${encodeURIComponent(this.model)}/${idInPath(this.id)}${query({ app: this.app, newest: true })}`);
      for (let tries = 0; found.token !== held && this.token === held && client === this.#client && tries < MOST_WAITS; tries++) await pause(100);
    } catch {
      // it is gone, or the server ends: the stream reports it
    }
    if (client !== this.#client) return;
    this.catching = false;
    const next = this.#seen.find(({ frame }) => frame.from === held && frame.token !== held);
    this.returned = next === undefined || this.token === held ? first : { ...next, seconds: first.seconds };
  }

  #failed(error: ClientError): void {
    this.#end();
    this.error = error;
    if (error.status === 401) session.leave("The server does not accept this token any more.");
  }

  /** The paths that the newest frame changed; none after a while. */
  touched(now: number, shown: number): string[] {
    if (this.last === null || now - this.last.at > shown || this.last.frame.event !== "patch") return [];
    return operations(this.last.frame.patch).map((one) => one.path);
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
