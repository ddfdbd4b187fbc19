// node follow.mjs CLIENT.js CONFIG: follow an id, and print {"versions": [...], "error": code, "extra": {...}}.
// CONFIG: {url, model, id, count, options, file, calls}
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { open } = await import(pathToFileURL(process.argv[2]));
const config = JSON.parse(process.argv[3]);
const options = { ...config.options };
if (config.file !== undefined) {
  options.store = {
    load() {
      try {
        return readFileSync(config.file, "utf8");
      } catch {
        return null;
      }
    },
    save(text) {
      writeFileSync(`${config.file}.new`, text);
      renameSync(`${config.file}.new`, config.file);
    },
  };
}
const versions = [];
let before = null;

function shared(old, now) {
  if (old === null || now === null || typeof old !== "object" || typeof now !== "object") return [];
  return Object.keys(now).filter((key) => Object.hasOwn(old, key) && typeof now[key] === "object" && old[key] === now[key]);
}

const client = open(config.url, config.model, config.id, options);
const error = await new Promise((resolve) => {
  client.onError((found) => resolve(found));
  let ready = false;
  const seen = () => {
    if (!ready) return;
    const { token, state, gone, kind } = client;
    versions.push({ token, state, gone, kind, shared: shared(before, state) });
    before = state;
    if (versions.length === config.count) resolve(null);
  };
  client.ready.then(() => {
    ready = true;
    client.subscribe(seen); // calls it with the first version
  }, () => undefined);
});
client.close();
const calls = [];
for (const [name, ...given] of config.calls ?? []) {
  try {
    calls.push(await client[name](...given));
  } catch (found) {
    calls.push({ code: found.code, status: found.status, token: found.token, message: found.message });
  }
}
const polluted = {}.polluted !== undefined;
console.log(JSON.stringify({ versions, error: error?.code ?? error?.message ?? null, calls, polluted }));
