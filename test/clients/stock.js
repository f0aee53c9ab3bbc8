/*
 * stock.js URL MAP APP_HASH PRESENT_KEY PRESENT_VALUE ABSENT_KEY... - what wallets do, with two
 * versions of the stock clients: connect, read, batch, talk over a WebSocket, and verify
 * proofs of presence and absence. Keys and values in hex.
 */
"use strict";

const [url, map, appHash, key, value, ...absent] = process.argv.slice(2);
let checks = 0;

function check(condition, message) {
    checks++;
    if (!condition)
        throw new Error(message);
}

const bytes = (hex) => Uint8Array.from(Buffer.from(hex, "hex"));
const hex = (data) => Buffer.from(data).toString("hex");

async function rejects(promise, what) {
    let message = null;
    try {
        await promise;
    } catch (error) {
        message = String(error.message || error);
    }
    check(message !== null, `${what}: no error`);
    return message;
}

/* An answer must come: a client that waits for ever is what a lost id does. */
function soon(promise, what) {
    return Promise.race([promise, new Promise((resolve, reject) =>
        setTimeout(() => reject(new Error(`${what}: no answer in 5 s`)), 5000).unref())]);
}

async function read(client, version) {
    const status = await client.status();
    check(hex(status.syncInfo.latestAppHash) === appHash, `${version}: app hash of status`);
    const info = await client.abciInfo();
    check(info.lastBlockHeight === status.syncInfo.latestBlockHeight - 1, `${version}: heights`);
    check(hex(info.lastBlockAppHash) === appHash, `${version}: app hash of abci_info`);
    const found = await client.abciQuery({ path: `/store/${map}/key`, data: bytes(key) });
    check(found.code === 0 && hex(found.value) === value, `${version}: value`);
    check(hex(found.key) === key && found.height === info.lastBlockHeight, `${version}: key`);
    const missing = await client.abciQuery({ path: `/store/${map}/key`, data: bytes(absent[0]) });
    check(missing.code === 0 && missing.value.length === 0, `${version}: absent`);
    const late = await client.abciQuery({ path: `/store/${map}/key`, data: bytes(key),
                                          height: 999999 });
    check(late.code === 26 && /heights \d+ to \d+ can be queried/.test(late.log),
          `${version}: a future height`);
    const unknown = await client.abciQuery({ path: "/store/nope/key", data: bytes(key) });
    check(unknown.code === 4, `${version}: an unknown store`);
    await client.health();
    const genesis = await client.genesis();
    check(genesis.chainId === status.nodeInfo.network, `${version}: genesis`);
    const blocks = await client.blockchain(1, status.syncInfo.latestBlockHeight);
    check(hex(blocks.blockMetas[0].header.appHash) === appHash, `${version}: newest header`);
    check(/Method not found/.test(await rejects(client.block(1), "block")), `${version}: block`);
}

async function batches(rpc, version) {
    const { HttpBatchClient, Comet38Client } = rpc;
    const batch = (limit) => Comet38Client.create(
        new HttpBatchClient(url, { dispatchInterval: 20, batchSizeLimit: limit }));
    const ask = (client) => client.abciQuery({ path: `/store/${map}/key`, data: bytes(key) });
    const good = await batch(10);
    for (const count of [1, 2, 10]) {
        const answers = await soon(
            Promise.all(Array.from({ length: count }, () => ask(good))), `batch of ${count}`);
        check(answers.every((a) => hex(a.value) === value), `${version}: batch of ${count}`);
    }
    /* Twenty is this client's default and more than a server takes by default: each id is told. */
    const large = await batch(20);
    const fates = await soon(
        Promise.allSettled(Array.from({ length: 15 }, () => ask(large))), "a batch of 15");
    check(fates.every((f) => f.status === "rejected" && /exceeds maximum \(10\)/.test(f.reason)),
          `${version}: batch over the limit`);
    good.disconnect();
    large.disconnect();
}

async function sockets(rpc, version) {
    const { WebsocketClient, Comet38Client } = rpc;
    const client = await Comet38Client.create(new WebsocketClient(url.replace("http", "ws")));
    const found = await soon(
        client.abciQuery({ path: `/store/${map}/key`, data: bytes(key), prove: true }), "socket");
    check(hex(found.value) === value && found.proof.ops.length === 2, `${version}: over a socket`);
    await new Promise((resolve, reject) => {
        const stream = client.subscribeNewBlockHeader();
        const listener = { next() {}, error: reject, complete: resolve };
        const subscription = stream.subscribe(listener);
        setTimeout(() => { subscription.unsubscribe ? subscription.unsubscribe() :
                               stream.removeListener(listener); resolve(); }, 300);
    });
    await soon(client.health(), "health after a subscription");
    client.disconnect();
}

/* queryStoreVerified compares with the header at the height after: ours is there at once. */
async function verified(client, stargate, version) {
    const query = stargate.QueryClient.withExtensions(client);
    const found = await soon(query.queryStoreVerified(map, bytes(key)), "queryStoreVerified");
    check(hex(found.value) === value, `${version}: verified value`);
    for (const missing of absent) {
        const none = await soon(query.queryStoreVerified(map, bytes(missing)), "absence");
        check(none.value.length === 0, `${version}: verified absence of ${missing}`);
    }
    client.disconnect();
}

(async () => {
    for (const version of ["0.32", "0.36"]) {
        const rpc = require(`tendermint-rpc-${version}`);
        for (const kind of ["Comet38Client", "Tendermint37Client"])
            await read(await rpc[kind].connect(url), `${version} ${kind}`);
        await read(await rpc.connectComet(url), `${version} connectComet`);
        await batches(rpc, version);
        await sockets(rpc, version);
    }
    /* Later versions of stargate have no queryStoreVerified any more. */
    const old = await require("tendermint-rpc-0.31").Tendermint37Client.connect(url);
    await verified(old, require("stargate-0.31"), "0.31");
    const comet = await require("tendermint-rpc-0.32").connectComet(url);
    await verified(comet, require("stargate-0.32"), "0.32");
    for (const version of ["0.32", "0.36"]) {
        const wallet = await require(`stargate-${version}`).StargateClient.connect(url);
        check(await wallet.getHeight() > 1, `${version}: height`);
        check(await wallet.getChainId() === "statekv", `${version}: chain id`);
        wallet.disconnect();
    }
    console.log(`${checks} checks`);
    process.exit(0);
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
