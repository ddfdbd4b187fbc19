// node sessions.mjs CLIENT.js: many clients in one process. A line of stdin opens one, {number, url, model, id,
// options}, or closes it, {number}. Each version, and the error that ends a client, is printed as a line.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { open } = await import(pathToFileURL(process.argv[2]));
const clients = new Map();

function print(value) {
  process.stdout.write(JSON.stringify(value) + "\n");
}

function follow({ number, url, model, id, options }) {
  const client = open(url, model, id, options);
  clients.set(number, client);
  client.onError((error) => print({ number, error: `${error?.code}: ${error?.message}` }));
  const report = () => {
    const { token, state, gone, kind } = client;
    print({ number, token, state, gone, kind });
  };
  client.ready.then(() => client.subscribe(report), () => undefined);
}

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  if (given.url !== undefined) follow(given);
  else {
    clients.get(given.number).close();
    clients.delete(given.number);
  }
}
