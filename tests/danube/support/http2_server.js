// An HTTP/2 server (nghttp2) that answers every call with success: `node http2_server.js PORT`.
const server = require("node:http2").createServer();
server.on("stream", (stream) => {
  stream.on("error", () => {});
  stream.on("wantTrailers", () => stream.sendTrailers({"grpc-status": "0"}));
  stream.respond({":status": 200, "content-type": "application/grpc"}, {waitForTrailers: true});
  stream.end("hello");
  stream.resume();
});
server.on("sessionError", () => {});
server.listen(Number(process.argv[2]), "127.0.0.1");
