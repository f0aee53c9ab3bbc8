/*
 * events.js PACKAGE URL COUNT - subscribe to new headers over a WebSocket, as wallets do, and
 * print the height and app hash of each of COUNT that arrive. "subscribed" comes first.
 */
"use strict";
const [name, url, count] = process.argv.slice(2);
const { Comet38Client, WebsocketClient } = require(name);

(async () => {
    const socket = new WebsocketClient(url.replace("http", "ws"));
    const client = await Comet38Client.create(socket);
    let left = Number(count);
    const stream = client.subscribeNewBlockHeader();
    stream.subscribe({
        next(header) {
            console.log(`${header.height} ${Buffer.from(header.appHash).toString("hex")}`);
            if (--left === 0)
                process.exit(0);
        },
        error(fault) { console.error(fault); process.exit(1); },
        complete() { console.error("the stream ended"); process.exit(1); },
    });
    await client.health(); /* answered after the subscription, on the same socket */
    console.log("subscribed");
})().catch((fault) => { console.error(fault); process.exit(1); });
