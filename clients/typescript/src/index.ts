/** The client of tidegate's models, for browsers and Node. */
export { canonical, digest } from "./canonical.js";
export { ModelClient, open, type Options, type Written } from "./client.js";
export { ClientError, type Version } from "./held.js";
export type { Json } from "./json.js";
export { apply, type Patch } from "./patch.js";
export { sha256 } from "./sha256.js";
export { webStore, type Store, type WebStorage } from "./store.js";
