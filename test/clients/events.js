/*
 * events.js PACKAGE URL COUNT - subscribe to new headers over a WebSocket, as wallets do, and
 * print the height and app hash of each of COUNT that arrive.
 */
"use strict";
const [name, url, count] = process.argv.slice(2);
const { Comet38Client, WebsocketClient } = require(name);

(async () => {
    const socket = new WebsocketClient(url.replace("http", "ws"));
    const client = await Comet38Client.create(socket);
    let left = Number(count);
    client.subscribeNewBlockHeader().subscribe({
        next(header) {
            console.log(`${header.height} ${Buffer.from(header.appHash).toString("hex")}`);
            if (--left === 0)
                process.exit(0);
        },
        error(fault) { console.error(fault); process.exit(1); },
        complete() { console.error("the stream ended"); process.exit(1); },
    });
    await client.health(); /* requests go on over the same socket */
})().catch((fault) => { console.error(fault); process.exit(1); });
