// Calls of the server's API.

import { parseJson } from "./json";
import { session } from "./session.svelte";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
    readonly retryable: boolean,
  ) {
    super(message);
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {
  constructor() {
    super("The server does not answer.");
  }
}

export interface CallOptions {
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

export async function request(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  if (session.token !== "") headers["Authorization"] = `Bearer ${session.token}`;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ?? null,
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Unreachable();
  }
  if (response.ok) return response;
  throw await refused(response);
}

async function refused(response: Response): Promise<ApiError> {
  let error: Partial<ApiError> = {};
  try {
    error = parseJson<{ error: Partial<ApiError> }>(await response.text()).error;
  } catch {
    // not an answer of the server itself: of a proxy, for example
  }
  const found = new ApiError(
    response.status,
    error.code ?? `http-${response.status}`,
    error.message ?? `The server answered with ${response.status}.`,
    error.hint ?? "",
    error.retryable ?? response.status >= 500,
  );
  if (response.status === 401) {
    session.leave(session.token === "" ? "This server needs a token." : "The server does not accept this token any more.");
  }
  return found;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request("GET", path, signal === undefined ? {} : { signal });
  return parseJson<T>(await response.text());
}

export async function post<T>(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<T> {
  const response = await request("POST", path, { body, headers });
  return parseJson<T>(await response.text());
}

export function query(parameters: Record<string, string | number | boolean | null | undefined>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (given.length === 0) return "";
  return `?${given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&")}`;
}
