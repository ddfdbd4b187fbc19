// node vectors.mjs CLIENT.js VECTORS.json: check every vector, and print {"checked": n, "wrong": [...]}.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { apply, canonical, digest, sha256 } = await import(pathToFileURL(process.argv[2]));
const text = readFileSync(process.argv[3], "utf8");
const vectors = JSON.parse(text);
const wrong = [];
let checked = 0;

function check(holds, what, one) {
  checked += 1;
  if (!holds) wrong.push({ what, one });
}

function plainDigest(value) {
  return `sha256:${Buffer.from(sha256(new TextEncoder().encode(canonical(value)))).toString("hex")}`;
}

/** Whether each part of `now` that is equal to the same part of `before` is the same object. */
function shared(before, now, patch) {
  if (Object.keys(patch).length === 0) return before === now;
  if (!("*" in patch) || "=" in patch) return true;
  return Object.keys(before).every((key) => {
    if (!Object.hasOwn(patch["*"], key)) return before[key] === now[key];
    return !Object.hasOwn(now, key) || shared(before[key], now[key], patch["*"][key]);
  });
}

for (const one of vectors.canonical) {
  const value = JSON.parse(one.json);
  check(canonical(value) === one.canonical, "canonical", one);
  check((await digest(value)) === one.digest, "digest", one);
  check(plainDigest(value) === one.digest, "digest without WebCrypto", one);
}
for (const one of [...vectors.patches, ...vectors.histories]) {
  const before = canonical(one.old);
  const now = apply(one.old, one.patch);
  check(canonical(now) === canonical(one.new), "new", one);
  check((await digest(now)) === one.digest, "digest", one);
  check(canonical(one.old) === before, "old value changed", one);
  check(shared(one.old, now, one.patch), "not shared", one);
}
for (const one of vectors.refused) {
  let refused = false;
  try {
    apply(one.old, one.patch);
  } catch {
    refused = true;
  }
  check(refused, "not refused", one);
}
for (const size of [55, 56, 63, 64, 119, 100_000]) {
  const value = "x".repeat(size);
  check((await digest(value)) === plainDigest(value), "digest without WebCrypto", size);
}
check({}.polluted === undefined && Object.keys(Object.prototype).length === 0, "Object.prototype changed", null);
console.log(JSON.stringify({ checked, wrong }));
