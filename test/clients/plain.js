/* plain.js URL - Node's own clients: an agent that keeps connections, and fetch. */
"use strict";
const http = require("http");
const assert = require("assert");
const url = process.argv[2];
const agent = new http.Agent({ keepAlive: true, maxSockets: 2 });

function ask(method, path, body, headers) {
    return new Promise((resolve, reject) => {
        const request = http.request(url + path, { method, agent, headers }, (answer) => {
            let text = "";
            answer.setEncoding("utf8");
            answer.on("data", (chunk) => { text += chunk; });
            answer.on("end", () => resolve({ status: answer.statusCode, text }));
        });
        request.on("error", reject);
        request.end(body);
    });
}

(async () => {
    const health = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "health" });
    const many = await Promise.all(Array.from({ length: 200 }, () => ask("POST", "/", health)));
    for (const answer of many)
        assert.deepStrictEqual(answer, { status: 200, text: '{"jsonrpc":"2.0","id":1,"result":{}}' });
    assert.strictEqual((await ask("HEAD", "/status")).text, "");
    assert.strictEqual((await ask("GET", "/health")).status, 200);
    const answer = await fetch(url + "/abci_query?path=%22/store/ibc/subspace%22&data=0x6b");
    assert(answer.headers.get("content-encoding") === "gzip");
    assert((await answer.json()).result.response.value.length > 3000);
    agent.destroy();
    console.log("node: well");
})().catch((error) => { console.error(error); process.exit(1); });
