import { ClientError, Unusable } from "./held.js";
import { isObject, type Json } from "./json.js";

/** Yields the complete lines of a stream. What follows the last line break is dropped: it was cut. */
export async function* lines(body: ReadableStream<Uint8Array>, heard: () => void): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parts: string[] = [];
  try {
    for (;;) {
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
      parts.push(found[found.length - 1] as string);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** Resolves if the response can be used. Unusable: try again later. ClientError: it never will be. */
export async function accepted(response: Response): Promise<Response> {
  if (response.ok) return response;
  const error = await refusal(response);
  if (response.status === 408 || response.status === 429 || response.status >= 500) throw new Unusable(error.message);
  throw error;
}

async function refusal(response: Response): Promise<ClientError> {
  let found: Json = null;
  try {
    found = (await response.json()) as Json;
  } catch {
    // A proxy's page, or nothing.
  }
  const body = isObject(found) ? found : {};
  const error = isObject(body["error"]) ? body["error"] : {};
  const text = (name: string): string => (typeof error[name] === "string" ? error[name] : "");
  return new ClientError(
    text("code") || "server-refused",
    text("message") || `the server answered with status ${response.status}`,
    text("hint"),
    response.status,
    typeof body["token"] === "string" ? body["token"] : null,
  );
}

/** Full jitter: a random part of a wait that doubles up to the longest one. */
export function backOff(failures: number, longest: number): number {
  return Math.random() * Math.min(longest, 1000 * 2 ** Math.min(failures - 1, 20));
}

/** Resolves after this time, or as soon as the signal is aborted. */
export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
  });
}
