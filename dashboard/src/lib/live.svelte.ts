// The one stream of this tab: frames with all numbers, and the topics and keys that screens follow.
//
//   connecting ── first line ──> live ── nothing for 5 s, or disconnected ──> stale ── first line ──> live
//
// After an interruption a followed topic goes on at the position of the last event, without loss or repetition.
// A tab that has no stream, since others have them all (slots.ts), shows the frames of another tab until it is used.
// A hidden tab closes its stream after three seconds, and shows the frames of a visible one, if there is any.

import { ApiError, Unreachable, post, request } from "./api";
import type { Json } from "./json";
import { parseJson } from "./json";
import { type Key, sameKey } from "./keys";
import { type HistoryMessage, Series } from "./series";
import { session } from "./session.svelte";
import { takeSlot } from "./slots";
import type { Frame, Happening, KeyState, TopicRecord } from "./types";

const STALE_MS = 5000;
const DEAD_MS = 20_000;
const LONGEST_WAIT_MS = 4000;
const MOST_EVENTS = 300;
const SLOT_MS = 2000;
const HIDDEN_MS = 3000;

export interface TopicChoice {
  topic: string; key?: Key; key_type?: string; per_second?: number; at?: string; from?: "start" | "end"; internal_headers?: boolean;
}
export interface KeyChoice { gate: string; key: Key; app?: string; key_type?: string }

/** One line of the stream: which fields it has depends on `event`. */
type Message = Record<string, any>;
type OnRecords = (records: TopicRecord[], skipped: number, id: string) => void;
interface FollowedTopic { choice: TopicChoice & { name: string }; take: OnRecords; failed: (error: Json) => void }
interface FollowedKey { choice: KeyChoice; take: (state: KeyState & { position: string }) => void }

class Live {
  state = $state<"connecting" | "live" | "stale">("connecting");
  /** When the last frame was made. */
  at = $state<number | null>(null);
  frame = $state.raw<Frame | null>(null);
  events = $state.raw<Happening[]>([]);
  error = $state.raw<Error | null>(null);
  /** Why the server has no numbers: it cannot read its log. */
  trouble = $state<string | null>(null);
  /** Counts the points of `series`: read it where they are shown. */
  points = $state(0);
  series = new Series();

  #stream: string | null = null;
  /** Counts what was followed. Records that were requested earlier, and arrive late, have another name. */
  #followed = 0;
  #topics = new Set<FollowedTopic>();
  #keys = new Set<FollowedKey>();
  #abort: AbortController | null = null;
  #heard = 0;
  #sending = false;
  #changed = false;
  #tabs = new BroadcastChannel("tidegate.frames");
  /** Whether someone uses this tab: then it takes a stream from another one. */
  #used = true;
  #wake = () => {};
  #connection: AbortController | null = null;
  #hiding: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.#tabs.onmessage = ({ data }: MessageEvent<Frame>) => this.#overhear(data);
    for (const event of ["pointerdown", "keydown"]) addEventListener(event, () => this.#use(), { capture: true, passive: true });
    document.addEventListener("visibilitychange", () => this.#hide());
  }

  /** Connects, and connects again until `stop`. */
  start(): void {
    if (this.#abort !== null) return;
    const abort = (this.#abort = new AbortController());
    void this.#run(abort);
  }

  stop(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.#stream = null;
    this.trouble = null;
    this.state = "connecting";
  }

  followTopic(choice: TopicChoice, take: OnRecords, failed: (error: Json) => void = () => {}): () => void {
    this.#followed += 1;
    const one: FollowedTopic = { choice: { ...choice, name: String(this.#followed) }, take, failed };
    this.#topics.add(one);
    this.#change();
    return () => {
      this.#topics.delete(one);
      this.#change();
    };
  }

  followKey(choice: KeyChoice, take: FollowedKey["take"]): () => void {
    const one: FollowedKey = { choice, take };
    this.#keys.add(one);
    this.#change();
    return () => {
      this.#keys.delete(one);
      this.#change();
    };
  }

  async #run(stopped: AbortController): Promise<void> {
    let wait = 250;
    while (!stopped.signal.aborted) {
      const connection = new AbortController();
      const end = () => connection.abort();
      stopped.signal.addEventListener("abort", end);
      await this.#visible();
      const release = await takeSlot(this.#used, end);
      if (release === null) {
        await this.#rest(SLOT_MS);
        continue;
      }
      this.#used = false;
      this.#connection = connection;
      const watch = setInterval(() => this.#watch(connection), 1000);
      try {
        this.#heard = Date.now();
        await this.#read(connection, () => (wait = 250));
      } catch (error) {
        if (stopped.signal.aborted) return;
        this.error = connection.signal.aborted ? new Unreachable() : (error as Error);
        if (error instanceof ApiError && error.status === 401) return this.stop();
      } finally {
        clearInterval(watch);
        connection.abort();
        release();
        stopped.signal.removeEventListener("abort", end);
        this.#stream = null;
        this.#connection = null;
      }
      if (stopped.signal.aborted) return;
      this.state = this.frame === null ? "connecting" : "stale";
      await this.#rest(wait * (0.75 + Math.random() / 2));
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    }
  }

  /** Waits while the tab is hidden: it needs no stream. */
  async #visible(): Promise<void> {
    while (document.hidden) await this.#rest(HIDDEN_MS);
  }

  #hide(): void {
    clearTimeout(this.#hiding);
    if (document.hidden) this.#hiding = setTimeout(() => this.#connection?.abort(), HIDDEN_MS);
    else this.#use();
  }

  /** Waits, or until someone uses the tab. */
  #rest(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #use(): void {
    if (this.#stream !== null) return;
    this.#used = true;
    this.#wake();
  }

  /** Takes a frame that another tab got. */
  #overhear(frame: Frame): void {
    if (this.#abort === null || this.#stream !== null || (this.at ?? 0) >= frame.at) return;
    this.#takeFrame(frame);
  }

  #watch(connection: AbortController): void {
    const quiet = Date.now() - this.#heard;
    if (quiet > STALE_MS && this.state === "live") this.state = "stale";
    if (quiet > DEAD_MS) connection.abort();
  }

  async #read(connection: AbortController, connected: () => void): Promise<void> {
    const response = await request("GET", "/summary/live", {
      signal: connection.signal,
      headers: { Accept: "application/x-ndjson" },
    });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest: string[] = [];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.#heard = Date.now();
      connected();
      if (this.trouble === null) {
        this.state = "live";
        this.error = null;
      }
      const lines = value.split("\n");
      rest.push(lines[0]!);
      for (let index = 1; index < lines.length; index += 1) {
        const line = rest.join("");
        rest = [lines[index]!];
        if (line.trim() !== "") this.#take(parseJson<Message>(line));
      }
    }
  }

  #take(message: Message): void {
    switch (message["event"]) {
      case "hello":
        this.#stream = message["stream"];
        this.#change();
        break;
      case "history":
        this.series.start(message as unknown as HistoryMessage);
        this.points += 1;
        break;
      case "frame":
        this.#takeFrame(message as unknown as Frame);
        this.#tabs.postMessage(message);
        break;
      case "events":
        this.#takeEvents(message["events"]);
        break;
      case "same":
        if (this.trouble !== null) break;
        this.at = message["at"];
        this.#tabs.postMessage({ ...this.frame, at: message["at"] });
        if (this.frame !== null && this.series.take({ ...this.frame, at: message["at"] })) this.points += 1;
        break;
      case "records":
        this.#takeRecords(message["name"], message["records"], message["skipped"] ?? 0, message["id"]);
        break;
      case "key":
        for (const one of this.#keys) {
          const { gate, key, app } = one.choice;
          if (gate === message["gate"] && sameKey(key, message["key"]) && (app ?? message["app"]) === message["app"]) {
            one.take(message as unknown as KeyState & { position: string });
          }
        }
        break;
      case "failure":
        this.#failed(message["topics"] ?? null, message["error"]);
    }
  }

  #takeFrame(frame: Frame): void {
    this.trouble = frame.apps === undefined ? (frame.server.trouble[0] ?? "The server cannot read its log") : null;
    if (this.trouble !== null) {
      this.state = this.frame === null ? "connecting" : "stale";
      this.error = new Error(this.trouble);
      return;
    }
    this.state = "live";
    this.frame = frame;
    this.at = frame.at;
    if (this.series.take(frame)) this.points += 1;
  }

  #takeEvents(events: Happening[]): void {
    const known = new Set(this.events.map((one) => `${one.app}/${one.id}`));
    const fresh = events.filter((one) => !known.has(`${one.app}/${one.id}`));
    if (fresh.length > 0) this.events = [...this.events, ...fresh].sort((a, b) => a.at - b.at).slice(-MOST_EVENTS);
  }

  #takeRecords(name: string, records: TopicRecord[], skipped: number, id: string): void {
    for (const one of this.#topics) {
      if (one.choice.name !== name) continue;
      one.choice = { ...one.choice, at: id };
      one.take(records, skipped, id);
    }
  }

  #failed(topics: string[] | null, error: { code: string; message: string; hint: string; retryable: boolean }): void {
    if (topics !== null) {
      for (const one of this.#topics) if (topics.includes(one.choice.topic)) one.failed(error);
    } else if (error.code === "no-token") {
      session.leave("The server does not accept this token any more.");
      this.stop();
    } else {
      this.error = new ApiError(0, error.code, error.message, error.hint, error.retryable);
    }
  }

  /** Reports to the server what is followed, once for all changes made together. */
  #change(): void {
    this.#changed = true;
    if (this.#sending) return;
    this.#sending = true;
    queueMicrotask(() => void this.#send());
  }

  async #send(): Promise<void> {
    try {
      while (this.#changed && this.#stream !== null) {
        this.#changed = false;
        const topics = [...this.#topics].map((one) => one.choice);
        const keys = [...this.#keys].map((one) => one.choice);
        await post(`/summary/live/${this.#stream}`, { topics, keys });
      }
    } catch (error) {
      if (error instanceof ApiError && error.code !== "no-such-stream") {
        this.error = error;
        for (const one of this.#topics) one.failed({ code: error.code, message: error.message, hint: error.hint });
      }
    } finally {
      this.#sending = false;
    }
  }
}

export const live = new Live();
