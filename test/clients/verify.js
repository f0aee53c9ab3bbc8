/*
 * verify.js URL PAIRS COUNT - stock clients read values from the query service at URL, and a
 * stock verifier checks proofs of presence and absence against the app hash of `status`.
 * PAIRS has lines of map, hex key and hex value; COUNT of them are asked per client.
 */
"use strict";
const fs = require("fs");
const { ics23, iavlSpec, tendermintSpec, verifyExistence, verifyNonExistence } =
    require("@confio/ics23");
const { Comet38Client, Tendermint37Client } = require("tendermint-rpc-0.32");
const { QueryClient } = require("stargate-0.32");
const STORE_VERIFIED = 50;

const [url, pairsFile, count] = process.argv.slice(2);
let checks = 0;

function check(condition, message) {
    checks++;
    if (!condition)
        throw new Error(message);
}

function rejected(verify, message) {
    let accepted = true;
    try {
        verify();
    } catch {
        accepted = false;
    }
    check(!accepted, message);
}

const same = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)) === 0;

/* The two steps of every light client: the map's root by the app hash, the key by that root. */
function verify(response, map, key, value, appHash) {
    const ops = response.proof.ops;
    check(ops.length === 2, `${map}: ${ops.length} ops`);
    check(ops[0].type === "ics23:iavl" && same(ops[0].key, key), `${map}: first op`);
    check(ops[1].type === "ics23:simple" && same(ops[1].key, Buffer.from(map)), "second op");
    const proof = ics23.CommitmentProof.decode(ops[0].data);
    const store = ics23.CommitmentProof.decode(ops[1].data);
    const root = store.exist.value;
    verifyExistence(store.exist, tendermintSpec, appHash, Buffer.from(map), root);
    if (value === null) {
        check(proof.nonexist, `${map}: no proof of absence`);
        verifyNonExistence(proof.nonexist, iavlSpec, root, key);
        const other = proof.nonexist.left || proof.nonexist.right;
        rejected(() => verifyNonExistence(proof.nonexist, iavlSpec, root, other.key),
                 "absence of a present key was proven");
    } else {
        check(proof.exist, `${map}: no proof of presence`);
        verifyExistence(proof.exist, iavlSpec, root, key, value);
        const forged = Buffer.concat([value, Buffer.from([0])]);
        rejected(() => verifyExistence(proof.exist, iavlSpec, root, key, forged),
                 "a forged value was proven");
        rejected(() => verifyExistence(proof.exist, iavlSpec, appHash, key, value),
                 "another root was accepted");
    }
}

async function ask(client, map, key, value, status) {
    const path = `/store/${map}/key`;
    const response = await client.abciQuery({ path, data: key, prove: true });
    check(response.code === 0, `${map}: code ${response.code}: ${response.log}`);
    check(same(response.key, key), `${map}: another key`);
    check(same(response.value, value === null ? [] : value), `${map}: another value`);
    check(response.height + 1 === status.syncInfo.latestBlockHeight, "another height");
    verify(response, map, key, value, status.syncInfo.latestAppHash);
}

/* The same as a wallet's library does it: two requests, the proof and the header after it. */
async function storeVerified(client, pairs) {
    const query = QueryClient.withExtensions(client);
    for (const [map, key, value] of pairs) {
        const found = await query.queryStoreVerified(map, key);
        check(same(found.value, value), `${map}: queryStoreVerified's value`);
        const other = Buffer.concat([key, Buffer.from([0])]);
        if (present.has(map + other.toString("hex")))
            continue;
        const none = await query.queryStoreVerified(map, other);
        check(none.value.length === 0, `${map}: queryStoreVerified's absence`);
    }
}

async function run(name, Client, pairs) {
    const client = await Client.connect(url);
    const status = await client.status();
    const info = await client.abciInfo();
    check(same(info.lastBlockAppHash, status.syncInfo.latestAppHash), "abci_info's app hash");
    await client.health();
    let absent = 0;
    for (const [map, key, value] of pairs) {
        await ask(client, map, key, value, status);
        for (const other of [Buffer.concat([key, Buffer.from([0])]), key.subarray(0, -1)]) {
            if (other.length === 0 || present.has(map + other.toString("hex")))
                continue;
            await ask(client, map, other, null, status);
            absent++;
        }
    }
    await storeVerified(client, pairs.slice(0, STORE_VERIFIED));
    client.disconnect();
    console.log(`${name}: ${pairs.length} present and ${absent} absent keys verified`);
}

const lines = fs.readFileSync(pairsFile, "utf8").trimEnd().split("\n");
const all = lines.map((line) => line.split("\t"));
const present = new Set(all.map(([map, key]) => map + key));
/* The ends and the rest spread evenly, each map's first and last key among them. */
const step = Math.max(1, Math.floor(all.length / Number(count)));
const chosen = all
    .filter((line, i) => i % step === 0 || i === all.length - 1 || all[i + 1][0] !== line[0])
    .map(([map, key, value]) => [map, Buffer.from(key, "hex"), Buffer.from(value, "hex")]);

(async () => {
    await run("Comet38Client", Comet38Client, chosen);
    await run("Tendermint37Client", Tendermint37Client, chosen);
    console.log(`${checks} checks, 0 failed`);
})().catch((fault) => {
    console.error(`FAILED ${fault.stack}`);
    process.exit(1);
});
