"""What MongoDB's Python driver sees of the server: smoke.py PORT DATABASE. It says the driver's version at the end."""

import sys

import pymongo
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

client = pymongo.MongoClient("127.0.0.1", int(sys.argv[1]), serverSelectionTimeoutMS=60_000)
collection = client[sys.argv[2]].users


def code_of(error, work):
    """The code of the error that this has to raise."""
    try:
        work()
    except error as raised:
        return raised.code
    raise AssertionError(f"no {error.__name__}")


assert client.admin.command("ping") == {"ok": 1.0}
assert client.server_info()["version"] == "6.0.0"

assert collection.insert_one({"_id": "a", "x": 1}).inserted_id == "a"
made = collection.insert_one({"x": 1}).inserted_id
assert collection.find_one(made) == {"_id": made, "x": 1}
done = collection.update_one({"_id": "a"}, {"$set": {"x": 2, "y": b"bytes"}})
assert (done.matched_count, done.modified_count) == (1, 1)
assert collection.find_one({"_id": "a"}) == {"_id": "a", "x": 2, "y": b"bytes"}
assert collection.find_one({"_id": "a"}, {"_id": False, "y": True}) == {"y": b"bytes"}
assert collection.update_one({"_id": "b"}, {"$set": {"x": 3}}, upsert=True).upserted_id == "b"
assert collection.replace_one({"_id": "b"}, {"z": 4}).modified_count == 1
assert collection.find_one({"_id": "b"}) == {"_id": "b", "z": 4}
assert collection.delete_one({"_id": "b"}).deleted_count == 1
assert collection.find_one({"_id": "b"}) is None

assert code_of(DuplicateKeyError, lambda: collection.insert_one({"_id": "a"})) == 11000
try:
    collection.insert_many([{"_id": 1}, {"_id": "a"}, {"_id": 2}], ordered=False)
    raise AssertionError("no BulkWriteError")
except BulkWriteError as raised:
    assert raised.details["nInserted"] == 2
    assert [one["code"] for one in raised.details["writeErrors"]] == [11000]
assert code_of(OperationFailure, lambda: list(collection.aggregate([]))) == 59
assert code_of(OperationFailure, lambda: collection.find_one({"x": 1})) == 2

many = client[sys.argv[2]].many
many.insert_many({"_id": i, "text": "x" * 100} for i in range(1000))
assert [one["_id"] for one in many.find()] == list(range(1000))
assert [one["_id"] for one in many.find(batch_size=7, limit=100)] == list(range(100))
with many.find(batch_size=10) as cursor:
    next(cursor)

unsure = client[sys.argv[2]].get_collection("users", write_concern=pymongo.WriteConcern(w=0))
unsure.update_one({"_id": "a"}, {"$set": {"x": 7}})
sure = client[sys.argv[2]].get_collection("users", write_concern=pymongo.WriteConcern(w=1, j=True))
assert sure.update_one({"_id": "a"}, {"$set": {"y": 8}}).modified_count == 1
assert sys.argv[2] in client.list_database_names()
client.close()
print("pymongo", pymongo.version)
