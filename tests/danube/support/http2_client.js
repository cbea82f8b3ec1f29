// Makes one call on each of several connections, without waiting for the server's SETTINGS:
// `node http2_client.js URL FILE TRIES`. Prints how many calls had which gRPC status, or which error.
const http2 = require("node:http2");
const [address, file, tries] = process.argv.slice(2);
const url = new URL(address);
const body = require("node:fs").readFileSync(file);

const call = () => new Promise((resolve) => {
  let told = "";
  const session = http2.connect(url.origin);
  session.on("error", (error) => { told ||= error.message; });
  session.on("close", () => resolve(told));
  const headers = {":method": "POST", ":path": url.pathname, "content-type": "application/grpc", "te": "trailers"};
  const stream = session.request(headers);
  const finish = (found) => { if ("grpc-status" in found) told = `grpc-status ${found["grpc-status"]}`; };
  stream.on("response", finish);
  stream.on("trailers", finish);
  stream.on("error", (error) => { told ||= error.message; });
  stream.on("close", () => session.close());
  stream.resume();
  stream.end(body);
});

(async () => {
  const counts = {};
  for (let n = 0; n < Number(tries); n++) {
    const told = await call();
    counts[told] = (counts[told] ?? 0) + 1;
  }
  console.log(JSON.stringify(counts));
})();
