/*
 * verify.js FILE - npm's stock ICS23 verifier over the proofs that proofs.c wrote: each must
 * be accepted, and everything made of it that claims something else must be refused.
 */
"use strict";
const fs = require("fs");
const { ics23, iavlSpec, tendermintSpec, verifyExistence, verifyNonExistence } =
    require("@confio/ics23");

const counts = { present: 0, absent: 0, refused: 0 };

function refused(verify, message) {
    let accepted = true;
    try {
        accepted = verify() === false ? false : true;
    } catch {
        accepted = false;
    }
    if (accepted)
        throw new Error(`accepted: ${message}`);
    counts.refused++;
}

const flip = (bytes) => {
    const copy = Buffer.from(bytes);
    copy[copy.length - 1] ^= 1;
    return copy;
};

/* A path with one step less, and one whose first step has its sides swapped. */
function shortened(exist) {
    const copy = ics23.ExistenceProof.decode(ics23.ExistenceProof.encode(exist).finish());
    copy.path = copy.path.slice(0, -1);
    return copy;
}

function swapped(exist) {
    const copy = ics23.ExistenceProof.decode(ics23.ExistenceProof.encode(exist).finish());
    const step = copy.path[0];
    const prefix = Buffer.from(step.prefix), suffix = Buffer.from(step.suffix || []);
    if (suffix.length === 33) {
        step.prefix = Buffer.concat([prefix, suffix.subarray(1), Buffer.from([32])]);
        step.suffix = Buffer.alloc(0);
    } else {
        step.suffix = Buffer.concat([Buffer.from([32]), prefix.subarray(-33, -1)]);
        step.prefix = prefix.subarray(0, -33);
    }
    return copy;
}

let before = null;
for (const line of fs.readFileSync(process.argv[2], "utf8").split("\n")) {
    if (line === "")
        continue;
    const [kind, map, ...hex] = line.split("\t");
    const [key, value, first, second, appHash, root, next] = hex.map((text) => Buffer.from(text, "hex"));
    const proof = ics23.CommitmentProof.decode(first);
    const store = ics23.CommitmentProof.decode(second);
    verifyExistence(store.exist, tendermintSpec, appHash, Buffer.from(map), root);
    refused(() => verifyExistence(store.exist, tendermintSpec, flip(appHash), Buffer.from(map),
                                  root), "another app hash");
    if (kind === "present") {
        const exist = proof.exist;
        verifyExistence(exist, iavlSpec, root, key, value);
        refused(() => verifyExistence(exist, iavlSpec, root, key, flip(value)), "another value");
        refused(() => verifyExistence(exist, iavlSpec, flip(root), key, value), "another root");
        if (exist.path.length > 0) {
            refused(() => verifyExistence(shortened(exist), iavlSpec, root, key, value), "a short path");
            refused(() => verifyExistence(swapped(exist), iavlSpec, root, key, value), "swapped sides");
        }
        /* Two leaves that are no neighbours must not show that what is between is absent. */
        if (before !== null && before.map === map && Buffer.compare(before.key, key) !== 0) {
            const here = { key, exist, next };
            const [left, right] = Buffer.compare(before.key, key) < 0 ? [before, here] : [here, before];
            const between = Buffer.concat([left.key, Buffer.from([0])]);
            const forged = { key: between, left: left.exist, right: right.exist };
            if (Buffer.compare(left.next, right.key) !== 0 &&
                Buffer.compare(between, right.key) < 0)
                refused(() => verifyNonExistence(forged, iavlSpec, root, between), "a forged gap");
        }
        before = { map, key, exist, next };
        counts.present++;
    } else {
        const nonexist = proof.nonexist;
        verifyNonExistence(nonexist, iavlSpec, root, key);
        refused(() => verifyNonExistence(nonexist, iavlSpec, flip(root), key), "another root");
        const sides = [nonexist.left, nonexist.right].filter((side) => side);
        for (const side of sides)
            refused(() => verifyNonExistence(nonexist, iavlSpec, root, Buffer.from(side.key)),
                    "absence of a present key");
        if (sides.length === 2) {
            refused(() => verifyNonExistence({ key, left: sides[0] }, iavlSpec, root, key),
                    "a missing right neighbour");
            refused(() => verifyNonExistence({ key, right: sides[1] }, iavlSpec, root, key),
                    "a missing left neighbour");
        }
        counts.absent++;
    }
}
console.log(`${counts.present} present and ${counts.absent} absent keys proven, ` +
            `${counts.refused} false claims refused`);
if (counts.present === 0 || counts.absent === 0)
    process.exit(1);
