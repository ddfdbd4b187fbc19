import { digest } from "./canonical.js";
import { has, isObject, type Json } from "./json.js";
import { apply } from "./patch.js";

/** What a client holds: one version of an id. Never changed in place. */
export interface Version {
  readonly token: string | null;
  /** Null if the id does not exist. */
  readonly state: Json;
  readonly gone: boolean;
  /** The frame that led to it; null if it was stored, or nothing came yet. */
  readonly kind: "state" | "patch" | "gone" | null;
}

/** The server refused, or the stream cannot be followed. `code` is one of docs/reference/errors.md. */
export class ClientError extends Error {
  override readonly name = "ClientError";
  constructor(
    readonly code: string,
    message: string,
    readonly hint = "",
    readonly status = 0,
    /** The current token, where the server has sent it: with `other-version`. */
    readonly token: string | null = null,
  ) {
    super(message);
  }
}

/** This frame cannot be used: connect again, with the token that is held. */
export class Unusable extends Error {}

export const MOST_MISMATCHES = 3;
export const NOTHING: Version = { token: null, state: null, gone: false, kind: null };

/** The rules of frames: which are applied, and which token the next request names. */
export class Held {
  private mismatches = 0;

  constructor(
    private readonly id: string,
    public version: Version,
  ) {}

  /** The token for the next request; null asks for the state. */
  get asked(): string | null {
    return this.mismatches > 0 ? null : this.version.token;
  }

  /** Take one line of the stream. Whether there is a new version. */
  async receive(line: string): Promise<boolean> {
    const frame = this.parsed(line);
    const next = await this.checked(frame);
    if (next === null) {
      this.mismatched();
      return false;
    }
    this.mismatches = 0;
    const changed = next.token !== this.version.token || next.kind === "state";
    this.version = next;
    return changed;
  }

  /** What the client holds is not what the server has: ask for the state. Throws the third time in a row. */
  mismatched(): never {
    this.mismatches += 1;
    if (this.mismatches < MOST_MISMATCHES) throw new Unusable("the digest differs");
    throw new ClientError(
      "digest-mismatch",
      `the state of ${JSON.stringify(this.id)} differed from its digest ${MOST_MISMATCHES} times in a row`,
      "compare the versions of client and server, and look for a proxy that changes responses",
    );
  }

  private parsed(line: string): { [key: string]: Json } {
    let frame: Json;
    try {
      frame = JSON.parse(line) as Json;
    } catch {
      throw new Unusable("a line that is no JSON");
    }
    if (isObject(frame) && isObject(frame["error"])) throw ended(frame["error"]);
    if (!isObject(frame) || frame["id"] !== this.id || typeof frame["token"] !== "string") {
      throw new Unusable("a frame of something else");
    }
    if (frame["event"] === "patch" && frame["from"] !== this.asked) {
      throw new Unusable("a patch for another version");
    }
    return frame;
  }

  /** The version after the frame; null if its digest is another one. */
  private async checked(frame: { [key: string]: Json }): Promise<Version | null> {
    const token = frame["token"] as string;
    const kind = frame["event"];
    if (kind === "gone") return { token, state: null, gone: true, kind };
    if (kind !== "state" && kind !== "patch") throw new Unusable("a frame of an unknown kind");
    try {
      const state = kind === "state" ? replaced(frame) : apply(this.version.state, frame["patch"]);
      return (await digest(state)) === frame["digest"] ? { token, state, gone: false, kind } : null;
    } catch (error) {
      if (error instanceof TypeError) return null;
      throw error;
    }
  }
}

function replaced(frame: { [key: string]: Json }): Json {
  if (!has(frame, "state")) throw new TypeError("there is no state");
  return frame["state"] as Json;
}

/** The last line of a stream that failed. */
function ended(error: { [key: string]: Json }): Error {
  const message = String(error["message"]);
  if (error["retryable"] === true) return new Unusable(message);
  return new ClientError(String(error["code"]), message, String(error["hint"] ?? ""));
}
