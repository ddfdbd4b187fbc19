// src/json.ts
function has(value, key2) {
  return Object.prototype.hasOwnProperty.call(value, key2);
}
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
function put(value, key2, item) {
  Object.defineProperty(value, key2, { value: item, writable: true, enumerable: true, configurable: true });
}

// src/sha256.ts
function sha256(data) {
  const hash = Uint32Array.from(FIRST);
  const words = new Uint32Array(64);
  const view = padded(data);
  for (let at = 0; at < view.byteLength; at += 64) block(view, at, hash, words);
  const result = new DataView(new ArrayBuffer(32));
  hash.forEach((word, index) => result.setUint32(4 * index, word));
  return new Uint8Array(result.buffer);
}
var PRIMES = primes(64);
var FIRST = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
var CONSTANTS = PRIMES.map((prime) => fraction(Math.cbrt(prime)));
function primes(count) {
  const found = [];
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime !== 0)) found.push(n);
  return found;
}
function fraction(value) {
  return Math.floor(value % 1 * 2 ** 32);
}
function padded(data) {
  const bytes = new Uint8Array(Math.ceil((data.length + 9) / 64) * 64);
  bytes.set(data);
  bytes[data.length] = 128;
  const view = new DataView(bytes.buffer);
  view.setUint32(bytes.length - 8, Math.floor(data.length / 2 ** 29));
  view.setUint32(bytes.length - 4, data.length * 8 >>> 0);
  return view;
}
function block(view, at, hash, words) {
  const word = (index) => words[index];
  for (let i = 0; i < 16; i++) words[i] = view.getUint32(at + 4 * i);
  for (let i = 16; i < 64; i++) {
    const [a2, b2] = [word(i - 15), word(i - 2)];
    const s0 = turned(a2, 7) ^ turned(a2, 18) ^ a2 >>> 3;
    const s1 = turned(b2, 17) ^ turned(b2, 19) ^ b2 >>> 10;
    words[i] = word(i - 16) + s0 + word(i - 7) + s1;
  }
  let [a, b, c, d, e, f, g, h] = hash;
  for (let i = 0; i < 64; i++) {
    const s1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const t1 = h + s1 + (e & f ^ ~e & g) + CONSTANTS[i] + word(i) | 0;
    const s0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const t2 = s0 + (a & b ^ a & c ^ b & c) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, d + t1 | 0, c, b, a, t1 + t2 | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((value, index) => hash[index] = hash[index] + value);
}
function turned(word, bits) {
  return word >>> bits | word << 32 - bits;
}

// src/canonical.ts
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (isObject(value)) {
    const keys = Object.keys(value).sort();
    return `{${keys.map((key2) => `${text(key2)}:${canonical(value[key2])}`).join(",")}}`;
  }
  if (typeof value === "string") return text(value);
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${value} is no JSON number`);
  const encoded = JSON.stringify(value);
  if (encoded === void 0) throw new TypeError(`a ${typeof value} is no JSON value`);
  return encoded;
}
var HALF_A_PAIR = /\p{Surrogate}/u;
function text(value) {
  if (HALF_A_PAIR.test(value)) throw new TypeError("text with half a surrogate pair");
  return JSON.stringify(value);
}
async function digest(value) {
  const bytes = new TextEncoder().encode(canonical(value));
  const subtle = globalThis.crypto?.subtle;
  const hash = subtle === void 0 ? sha256(bytes) : new Uint8Array(await subtle.digest("SHA-256", bytes));
  return `sha256:${Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

// src/patch.ts
function apply(value, patch) {
  if (!isObject(patch)) throw new TypeError("a patch is an object");
  const operations = Object.keys(patch);
  if (operations.length === 0) return value;
  if (has(patch, "=")) return patch["="];
  if (has(patch, "*") && isObject(value)) return withKeys(value, patch["*"]);
  if (operations.every((one) => one === "#" || one === "n" || one === "+") && Array.isArray(value)) {
    return withItems(value, patch);
  }
  throw new TypeError(`a patch with ${operations.join(" ")} does not fit`);
}
function withKeys(value, changes) {
  if (!isObject(changes)) throw new TypeError("the changes of keys are an object");
  const changed = { ...value };
  for (const key2 of Object.keys(changes)) {
    const patch = changes[key2];
    if (!isObject(patch)) throw new TypeError("a patch is an object");
    if (has(patch, "-")) delete changed[key2];
    else if (has(patch, "=")) put(changed, key2, patch["="]);
    else if (has(changed, key2)) put(changed, key2, apply(changed[key2], patch));
    else throw new TypeError(`the patch changes ${JSON.stringify(key2)}, which is not there`);
  }
  return changed;
}
function withItems(value, patch) {
  let changed = [...value];
  for (const change of list(patch, "#")) {
    const [index, part] = change;
    if (!Number.isInteger(index) || index < 0 || index >= changed.length) {
      throw new TypeError(`the patch changes item ${index} of ${changed.length}`);
    }
    changed[index] = apply(changed[index], part);
  }
  if (has(patch, "n")) {
    const count = patch["n"];
    if (!Number.isInteger(count) || count < 0 || count > changed.length) {
      throw new TypeError(`the patch cuts ${changed.length} items to ${count}`);
    }
    changed = changed.slice(0, count);
  }
  return changed.concat(list(patch, "+"));
}
function list(patch, operation) {
  const found = has(patch, operation) ? patch[operation] : [];
  if (!Array.isArray(found)) throw new TypeError(`${operation} of a patch is a list`);
  return found;
}

// src/held.ts
var ClientError = class extends Error {
  constructor(code, message, hint = "", status = 0, token = null) {
    super(message);
    this.code = code;
    this.hint = hint;
    this.status = status;
    this.token = token;
  }
  code;
  hint;
  status;
  token;
  name = "ClientError";
};
var Unusable = class extends Error {
};
var MOST_MISMATCHES = 3;
var NOTHING = { token: null, state: null, gone: false, kind: null };
var Held = class {
  constructor(id, version) {
    this.id = id;
    this.version = version;
  }
  id;
  version;
  mismatches = 0;
  /** The token for the next request; null asks for the state. */
  get asked() {
    return this.mismatches > 0 ? null : this.version.token;
  }
  /** Take one line of the stream. Whether there is a new version. */
  async receive(line) {
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
  mismatched() {
    this.mismatches += 1;
    if (this.mismatches < MOST_MISMATCHES) throw new Unusable("the digest differs");
    throw new ClientError(
      "digest-mismatch",
      `the state of ${JSON.stringify(this.id)} differed from its digest ${MOST_MISMATCHES} times in a row`,
      "compare the versions of client and server, and look for a proxy that changes responses"
    );
  }
  parsed(line) {
    let frame;
    try {
      frame = JSON.parse(line);
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
  async checked(frame) {
    const token = frame["token"];
    const kind = frame["event"];
    if (kind === "gone") return { token, state: null, gone: true, kind };
    if (kind !== "state" && kind !== "patch") throw new Unusable("a frame of an unknown kind");
    try {
      const state = kind === "state" ? replaced(frame) : apply(this.version.state, frame["patch"]);
      return await digest(state) === frame["digest"] ? { token, state, gone: false, kind } : null;
    } catch (error) {
      if (error instanceof TypeError) return null;
      throw error;
    }
  }
};
function replaced(frame) {
  if (!has(frame, "state")) throw new TypeError("there is no state");
  return frame["state"];
}
function ended(error) {
  const message = String(error["message"]);
  if (error["retryable"] === true) return new Unusable(message);
  return new ClientError(String(error["code"]), message, String(error["hint"] ?? ""));
}

// src/store.ts
function webStore(storage, key2) {
  return {
    load: () => storage.getItem(key2),
    save: (text2) => storage.setItem(key2, text2)
  };
}
var FORMAT = 1;
function kept(model, id, version) {
  const { token, state, gone } = version;
  return JSON.stringify({ format: FORMAT, model, id, token, gone, state });
}
function restored(model, id, text2) {
  if (text2 === null || text2 === void 0) return null;
  let found;
  try {
    found = JSON.parse(text2);
  } catch {
    return null;
  }
  if (!isObject(found) || found["format"] !== FORMAT || found["model"] !== model || found["id"] !== id) return null;
  if (typeof found["token"] !== "string" || !has(found, "state")) return null;
  return { token: found["token"], state: found["state"], gone: found["gone"] === true, kind: null };
}

// src/stream.ts
async function* lines(body, heard) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parts = [];
  try {
    for (; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const found = decoder.decode(value, { stream: true }).split("\n");
      for (const end of found.slice(0, -1)) {
        parts.push(end);
        const line = parts.join("").trim();
        parts.length = 0;
        if (line !== "") yield line;
      }
      parts.push(found[found.length - 1]);
    }
  } finally {
    reader.cancel().catch(() => void 0);
  }
}
async function accepted(response) {
  if (response.ok) return response;
  const error = await refusal(response);
  if (response.status === 408 || response.status === 429 || response.status >= 500) throw new Unusable(error.message);
  throw error;
}
async function refusal(response) {
  let found = null;
  try {
    found = await response.json();
  } catch {
  }
  const body = isObject(found) ? found : {};
  const error = isObject(body["error"]) ? body["error"] : {};
  const text2 = (name) => typeof error[name] === "string" ? error[name] : "";
  return new ClientError(
    text2("code") || "server-refused",
    text2("message") || `the server answered with status ${response.status}`,
    text2("hint"),
    response.status,
    typeof body["token"] === "string" ? body["token"] : null
  );
}
function backOff(failures, longest) {
  return Math.random() * Math.min(longest, 1e3 * 2 ** Math.min(failures - 1, 20));
}
function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
  });
}

// src/client.ts
var ATTEMPTS = 5;
var SILENCE = 4e4;
var LONGEST_WAIT = 1e4;
var ModelClient = class {
  constructor(url, model, id, options = {}) {
    this.url = url;
    this.model = model;
    this.id = id;
    this.options = options;
    const { token, state, store } = options;
    const first = token === void 0 ? NOTHING : { ...NOTHING, token, state: state ?? null };
    this.held = new Held(id, first);
    this.store = store === void 0 ? null : "load" in store ? store : webStore(store, `tidegate:${this.path}`);
    let resolve = () => void 0;
    this.ready = new Promise((resolved, rejected) => {
      resolve = () => resolved(this);
      this.fail = rejected;
    });
    this.ready.catch(() => void 0);
    this.follow(resolve).catch((error) => {
      if (this.ending.signal.aborted) return;
      this.error = error;
      this.ending.abort();
      this.fail(error);
      for (const listener of [...this.errorListeners]) called(listener, error);
    });
  }
  url;
  model;
  id;
  options;
  /** Resolves with the client at the first frame; rejects if there is an error before it. */
  ready;
  /** Why the client has ended; null while it follows, and after close(). */
  error = null;
  /** Why the newest version is not in the store: it is full, for example. What is there is an older version. */
  storeError = null;
  listeners = /* @__PURE__ */ new Set();
  errorListeners = /* @__PURE__ */ new Set();
  ending = new AbortController();
  held;
  store;
  failures = 0;
  fail = () => void 0;
  /** The state. Parts that a change leaves alone are the same objects as before it. Do not change it. */
  get state() {
    return this.held.version.state;
  }
  /** The token of the version that is held; null before the first frame. */
  get token() {
    return this.held.version.token;
  }
  /** Whether the id does not exist. */
  get gone() {
    return this.held.version.gone;
  }
  /** The last frame that changed the state: `state`, `patch` or `gone`. */
  get kind() {
    return this.held.version.kind;
  }
  /** Call a function with the present state, if there is one, and with each later one. Returns what ends it. */
  subscribe(listener) {
    this.listeners.add(listener);
    if (this.token !== null) called(listener, this.state, this);
    return () => void this.listeners.delete(listener);
  }
  /** Call a function with the error that ends the client. */
  onError(listener) {
    this.errorListeners.add(listener);
    if (this.error !== null) called(listener, this.error);
    return () => void this.errorListeners.delete(listener);
  }
  /** End the connection. The state stays. */
  close() {
    this.ending.abort();
    this.listeners.clear();
    this.fail(new ClientError("client-closed", "the client was closed before the first frame", "open another one"));
  }
  /** Append a diff. With `expect` only if that is the current version: else ClientError `other-version`. */
  append(diff, expect) {
    return this.request("POST", `${this.path}/diffs`, diff, expect);
  }
  /** Create the id, with or without a first diff. */
  create(diff) {
    const body = diff === void 0 ? { id: this.id } : { id: this.id, diff };
    return this.request("POST", `${this.base}/${encode(this.model)}`, body);
  }
  /** Delete the id. */
  delete(expect) {
    return this.request("DELETE", this.path, void 0, expect);
  }
  get base() {
    return this.url.replace(/\/+$/, "");
  }
  get path() {
    return `${this.base}/${encode(this.model)}/${encode(this.id)}`;
  }
  get fetch() {
    return this.options.fetch ?? globalThis.fetch.bind(globalThis);
  }
  async headers(more) {
    const { grant } = this.options;
    const found = typeof grant === "function" ? await grant() : grant;
    return found === void 0 ? more : { ...more, Authorization: `Bearer ${found}` };
  }
  /** Connect again and again, until there is an error that no attempt would change. */
  async follow(ready) {
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
  async restore() {
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
  async save() {
    try {
      await this.store?.save(kept(this.model, this.id, this.held.version));
      this.storeError = null;
    } catch (error) {
      this.storeError = error;
    }
  }
  /** Whether the next request has another grant. */
  renewable(error) {
    const ended2 = error instanceof ClientError && error.code === "grant-ended";
    return ended2 && typeof this.options.grant === "function";
  }
  forget() {
    try {
      this.held.mismatched();
    } catch (error) {
      if (!(error instanceof Unusable)) throw error;
    }
  }
  /** One connection, until it ends. */
  async stream(ready) {
    const silence = this.options.silence ?? SILENCE;
    const connection = new AbortController();
    const end = () => connection.abort();
    let timer = setTimeout(end, silence);
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(end, silence);
    };
    this.ending.signal.addEventListener("abort", end);
    try {
      const token = this.held.asked;
      const query = token === null ? "" : `?hash=${encodeURIComponent(token)}`;
      const headers = await this.headers({ Accept: "application/x-ndjson" });
      const options = { headers, signal: connection.signal, cache: "no-store" };
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
  notify() {
    for (const listener of [...this.listeners]) called(listener, this.state, this);
  }
  /** Send a write. Its Idempotency-Key makes it safe to send it again when a response is lost. */
  async request(method, url, body, expect) {
    const more = { "Idempotency-Key": key() };
    if (body !== void 0) more["Content-Type"] = "application/json";
    if (expect !== void 0) more["If-Match"] = `"${expect}"`;
    for (let attempt = 1; ; attempt++) {
      try {
        const headers = await this.headers(more);
        const signal = AbortSignal.timeout(this.options.silence ?? SILENCE);
        const options = body === void 0 ? {} : { body: JSON.stringify(body) };
        const response = await accepted(await this.fetch(url, { ...options, method, headers, signal }));
        if (response.status === 202) throw undecided();
        const found = await response.json();
        if (isObject(found)) return found;
        throw new Unusable("the response is no JSON object");
      } catch (error) {
        if (!retryable(error)) throw error;
        if (attempt === ATTEMPTS) throw new ClientError("server-unreachable", `no response: ${String(error)}`, "try again later");
        await sleep(backOff(attempt, this.options.longestWait ?? LONGEST_WAIT), new AbortController().signal);
      }
    }
  }
};
function open(url, model, id, options = {}) {
  return new ModelClient(url, model, id, options);
}
function called(listener, ...given) {
  try {
    listener(...given);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
function encode(name) {
  return encodeURIComponent(name).replace(/^\.+$/, (dots) => "%2E".repeat(dots.length));
}
function undecided() {
  const message = "the request is in the log, and the app has not decided on it in time";
  return new ClientError("not-decided", message, "check that the app is running", 202);
}
function key() {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
function retryable(error) {
  if (error instanceof Unusable || error instanceof TypeError) return true;
  return error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError");
}
export {
  ClientError,
  ModelClient,
  apply,
  canonical,
  digest,
  open,
  sha256,
  webStore
};
