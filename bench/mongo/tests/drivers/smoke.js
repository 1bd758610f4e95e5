// What MongoDB's driver for Node sees of the server: smoke.js PORT DATABASE FOLDER, where FOLDER has node_modules.
// It says the driver's version at the end.
"use strict";

const assert = require("node:assert/strict");
const { createRequire } = require("node:module");

const [port, database, folder] = process.argv.slice(2);
const require_ = createRequire(`${folder}/`);
const { MongoClient } = require_("mongodb");

async function main() {
  const client = new MongoClient(`mongodb://127.0.0.1:${port}/`, { serverSelectionTimeoutMS: 60000 });
  await client.connect();
  const db = client.db(database);
  const users = db.collection("users");

  assert.deepEqual(await db.command({ ping: 1 }), { ok: 1 });
  assert.equal((await users.insertOne({ _id: "a", x: 1 })).insertedId, "a");
  const done = await users.updateOne({ _id: "a" }, { $set: { x: 2, y: "new" } });
  assert.deepEqual([done.matchedCount, done.modifiedCount], [1, 1]);
  assert.deepEqual(await users.findOne({ _id: "a" }), { _id: "a", x: 2, y: "new" });
  assert.deepEqual(await users.findOne({ _id: "a" }, { projection: { y: 0 } }), { _id: "a", x: 2 });
  assert.equal((await users.updateOne({ _id: "b" }, { $set: { x: 3 } }, { upsert: true })).upsertedId, "b");
  assert.equal((await users.replaceOne({ _id: "b" }, { z: 4 })).modifiedCount, 1);
  assert.deepEqual(await users.findOne({ _id: "b" }), { _id: "b", z: 4 });
  assert.equal((await users.deleteOne({ _id: "b" })).deletedCount, 1);
  assert.equal(await users.findOne({ _id: "b" }), null);

  await assert.rejects(users.insertOne({ _id: "a" }), { code: 11000 });
  await assert.rejects(db.command({ dropDatabase: 1 }), { code: 59, codeName: "CommandNotFound" });
  await assert.rejects(users.findOne({ x: 1 }), { code: 2 });

  const many = db.collection("many");
  await many.insertMany(Array.from({ length: 1000 }, (_, i) => ({ _id: i })));
  const ids = (await many.find().toArray()).map((one) => one._id);
  assert.deepEqual(ids, Array.from({ length: 1000 }, (_, i) => i));
  assert.equal((await many.find({}, { batchSize: 7, limit: 100 }).toArray()).length, 100);
  const cursor = many.find({}, { batchSize: 10 });
  await cursor.next();
  await cursor.close();
  await client.close();
  console.log("mongodb", require_("mongodb/package.json").version);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
