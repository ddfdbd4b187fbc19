// node follow.mjs CLIENT.js: for each line of stdin follow an id, and print what came of it as a line.
// A line: {url, model, id, count, options, file, calls}. The answer: {versions, error, calls, polluted}.
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { open } = await import(pathToFileURL(process.argv[2]));

function fileStore(file) {
  return {
    load() {
      try {
        return readFileSync(file, "utf8");
      } catch {
        return null;
      }
    },
    save(text) {
      writeFileSync(`${file}.new`, text);
      renameSync(`${file}.new`, file);
    },
  };
}

/** The keys whose values are the same objects as before. */
function shared(old, now) {
  if (old === null || now === null || typeof old !== "object" || typeof now !== "object") return [];
  return Object.keys(now).filter((key) => {
    return Object.hasOwn(old, key) && typeof now[key] === "object" && old[key] === now[key];
  });
}

/** Collect so many versions. Resolves with the error that ends the client, or null. */
function followed(client, count, versions) {
  let before = null;
  return new Promise((resolve) => {
    const seen = () => {
      const { token, state, gone, kind } = client;
      versions.push({ token, state, gone, kind, shared: shared(before, state) });
      before = state;
      if (versions.length === count) resolve(null);
    };
    client.onError(resolve);
    client.ready.then(() => client.subscribe(seen), () => undefined);
  });
}

async function called(client, name, given) {
  try {
    return await client[name](...given);
  } catch (error) {
    return { code: error.code, status: error.status, token: error.token, message: error.message };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const config = JSON.parse(line);
  const options = config.file === undefined ? config.options : { ...config.options, store: fileStore(config.file) };
  const client = open(config.url, config.model, config.id, options);
  const versions = [];
  const error = await followed(client, config.count, versions);
  client.close();
  const calls = [];
  for (const [name, ...given] of config.calls) calls.push(await called(client, name, given));
  const polluted = {}.polluted !== undefined;
  console.log(JSON.stringify({ versions, error: error?.code ?? error?.message ?? null, calls, polluted }));
}
