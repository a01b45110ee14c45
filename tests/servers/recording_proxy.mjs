// Passes requests on to a server on this machine, and appends the body of each POST as one line to a file:
// recording_proxy.mjs PORT SERVER_PORT FILE
import { appendFileSync } from "node:fs";
import { createServer, request } from "node:http";

const [port, serverPort, file] = process.argv.slice(2);

createServer(async (from, to) => {
    const parts = [];
    for await (const part of from) parts.push(part);
    const body = Buffer.concat(parts);
    if (from.method === "POST") appendFileSync(file, `${body.toString().replaceAll("\n", " ")}\n`);
    const { method, url: path, headers } = from;
    const onward = request({ host: "127.0.0.1", port: serverPort, method, path, headers }, (answer) => {
        to.writeHead(answer.statusCode, answer.headers);
        answer.pipe(to);
    });
    onward.on("error", () => to.destroy());
    onward.end(body);
}).listen(Number(port), "127.0.0.1");
