// node behaviour.mjs CLIENT.js URL: what is particular to the client in TypeScript. Prints one object.
import { pathToFileURL } from "node:url";

const { open } = await import(pathToFileURL(process.argv[2]));
const url = process.argv[3];
const quick = { longestWait: 1 };
const found = {};

function until(client, count) {
  return new Promise((resolve) => {
    const seen = [];
    const stop = client.subscribe((state) => {
      seen.push(state.n);
      if (seen.length === count) queueMicrotask(() => (stop(), resolve(seen)));
    });
  });
}

/** What localStorage has; it takes no more than so many writes. */
function webStorage(writes) {
  const items = new Map();
  return {
    items,
    getItem: (key) => items.get(key) ?? null,
    setItem(key, value) {
      if (writes-- <= 0) throw new Error("QuotaExceededError");
      items.set(key, value);
    },
  };
}

// 1: two versions, of which the storage takes the first.
const full = webStorage(1);
const first = open(url, "flows", "w/1", { ...quick, store: full });
found.states = await until(first, 2);
found.storeError = String(first.storeError?.message);
found.keys = [...full.items.keys()].map((key) => key.replace(url, "URL"));
found.kept = [...full.items.values()].map((text) => JSON.parse(text).state.n);
first.close();

// 2: comes back with the version of the storage; a listener that throws does not end it.
process.on("uncaughtException", (error) => (found.uncaught = error.message));
const second = open(url + "/", "flows", "w/1", { ...quick, store: { load: () => [...full.items.values()][0], save() {} } });
await second.ready;
found.early = second.state.n;
second.subscribe(() => {
  throw new Error("of a listener");
});
const calls = [];
const unsubscribe = second.subscribe((state) => calls.push(state.n));
unsubscribe();
found.second = await until(second, 2);
found.unsubscribed = calls;
second.close();
found.afterClose = second.state.n;

// 3: closed before the first frame.
const third = open("http://127.0.0.1:1", "flows", "w/1", quick);
setTimeout(() => third.close(), 20);
found.closed = await third.ready.then(() => "ready", (error) => error.code);

// 4: a grant that has ended is requested again; one that is a text is not.
let grants = 0;
const fourth = open(url, "flows", "w/1", { ...quick, grant: async () => `g${++grants}` });
found.granted = await until(fourth, 2);
fourth.close();
const fifth = open(url, "flows", "w/1", { ...quick, grant: "g" });
found.notRenewed = await new Promise((resolve) => fifth.onError((error) => resolve(error.code)));
found.remembered = fifth.error.code;
console.log(JSON.stringify(found));
