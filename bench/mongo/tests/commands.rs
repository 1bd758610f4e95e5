//! The commands, on each engine: what clients see is the same on all.

mod common;

use bson::raw::{RawDocumentBuf, cstr};
use bson::{Bson, Document, bson, doc, rawdoc};
use common::{MORE_TO_COME, OP_MSG, Served, answer, array, command, contents, message, on_each};
use mongo::commands::Client;
use std::thread;

fn insert(documents: impl IntoIterator<Item = RawDocumentBuf>) -> RawDocumentBuf {
    rawdoc! { "insert": "c", "documents": array(documents) }
}

fn update(q: RawDocumentBuf, u: RawDocumentBuf, upsert: bool) -> RawDocumentBuf {
    rawdoc! { "update": "c", "updates": [{ "q": q, "u": u, "upsert": upsert }] }
}

fn found(served: &Served, client: &mut Client, find: RawDocumentBuf) -> Vec<Bson> {
    let reply = served.ask(client, find);
    let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("{reply}"));
    assert_eq!((cursor.get_i64("id").ok(), cursor.get_str("ns").ok()), (Some(0), Some("test.c")));
    cursor.get_array("firstBatch").unwrap().clone()
}

fn by_id(served: &Served, client: &mut Client, id: impl Into<bson::RawBson>) -> Vec<Bson> {
    let filter = common::named("_id", id);
    found(served, client, rawdoc! { "find": "c", "filter": filter, "limit": 1, "singleBatch": true })
}

fn code(reply: &Document) -> i32 {
    assert_eq!(reply.get_f64("ok").ok(), Some(0.0), "{reply}");
    reply.get_i32("code").unwrap()
}

#[test]
fn a_document_is_written_read_changed_and_deleted() {
    on_each(|served| {
        let mut client = served.client();
        let mut ask = |body| served.ask(&mut client, body);
        assert_eq!(ask(insert([rawdoc! { "_id": "a", "x": 1 }])), doc! { "n": 1, "ok": 1.0 });
        let set = update(rawdoc! { "_id": "a" }, rawdoc! { "$set": { "x": 2, "z": 1, "y": "new" } }, false);
        assert_eq!(ask(set.clone()), doc! { "n": 1, "nModified": 1, "ok": 1.0 });
        assert_eq!(ask(set), doc! { "n": 1, "nModified": 0, "ok": 1.0 }, "nothing changes");
        let after = bson!({ "_id": "a", "x": 2, "y": "new", "z": 1 });
        assert_eq!(by_id(served, &mut client, "a"), [after]);

        let mut ask = |body| served.ask(&mut client, body);
        let replace = update(rawdoc! { "_id": { "$eq": "a" } }, rawdoc! { "w": [1, 2] }, false);
        assert_eq!(ask(replace), doc! { "n": 1, "nModified": 1, "ok": 1.0 });
        let missing = update(rawdoc! { "_id": "b" }, rawdoc! { "$set": { "x": 1 } }, false);
        assert_eq!(ask(missing), doc! { "n": 0, "nModified": 0, "ok": 1.0 });
        assert_eq!(by_id(served, &mut client, "a"), [bson!({ "_id": "a", "w": [1, 2] })]);

        let delete = rawdoc! { "delete": "c", "deletes": [{ "q": { "_id": "a" }, "limit": 1 }] };
        assert_eq!(served.ask(&mut client, delete.clone()), doc! { "n": 1, "ok": 1.0 });
        assert_eq!(served.ask(&mut client, delete), doc! { "n": 0, "ok": 1.0 });
        assert_eq!(by_id(served, &mut client, "a"), []);
    });
}

#[test]
fn an_upsert_makes_what_is_missing() {
    on_each(|served| {
        let mut client = served.client();
        let set = update(rawdoc! { "_id": 5 }, rawdoc! { "$set": { "x": 1 } }, true);
        let upserted = doc! { "n": 1, "nModified": 0, "upserted": [{ "index": 0, "_id": 5 }], "ok": 1.0 };
        assert_eq!(served.ask(&mut client, set.clone()), upserted);
        assert_eq!(served.ask(&mut client, set), doc! { "n": 1, "nModified": 0, "ok": 1.0 });
        served.ask(&mut client, update(rawdoc! { "_id": 6 }, rawdoc! { "y": 1 }, true));
        assert_eq!(by_id(served, &mut client, 5), [bson!({ "_id": 5, "x": 1 })]);
        assert_eq!(by_id(served, &mut client, 6), [bson!({ "_id": 6, "y": 1 })]);
    });
}

#[test]
fn an_id_is_used_once() {
    on_each(|served| {
        let mut client = served.client();
        let batch = |ordered| {
            let mut body = insert([1, 2, 1, 3].map(|id| rawdoc! { "x": 0, "_id": id }));
            body.append(cstr!("ordered"), ordered);
            body
        };
        let reply = served.ask(&mut client, batch(true));
        assert_eq!(reply.get_i32("n").ok(), Some(2));
        let errors = reply.get_array("writeErrors").unwrap();
        let error = errors[0].as_document().unwrap();
        assert_eq!(
            (errors.len(), error.get_i32("index").ok(), error.get_i32("code").ok()),
            (1, Some(2), Some(11000))
        );
        let message = "E11000 duplicate key error collection: test.c index: _id_ dup key: { _id: 1 }";
        assert_eq!(error.get_str("errmsg").ok(), Some(message));
        assert_eq!(error.get_document("keyValue").ok(), Some(&doc! { "_id": 1 }));

        let reply = served.ask(&mut client, batch(false));
        assert_eq!((reply.get_i32("n").ok(), reply.get_array("writeErrors").unwrap().len()), (Some(1), 3));
        // The `_id` comes first, and a number is one number in all types.
        assert_eq!(by_id(served, &mut client, 3.0), [bson!({ "_id": 3, "x": 0 })]);
        assert_eq!(by_id(served, &mut client, 3_i64).len(), 1);
        assert_eq!(by_id(served, &mut client, "3").len(), 0);
        // Without one, the server makes one.
        assert_eq!(served.ask(&mut client, insert([rawdoc! { "x": 9 }])).get_i32("n").ok(), Some(1));
        let all = found(served, &mut client, rawdoc! { "find": "c" });
        assert_eq!(all.iter().filter(|it| it.as_document().unwrap().get_object_id("_id").is_ok()).count(), 1);
    });
}

#[test]
fn documents_come_in_batches() {
    on_each(|served| {
        let mut client = served.client();
        served.ask(&mut client, insert((0..250).map(|id| rawdoc! { "_id": id, "x": id * 2, "y": 1 })));
        // Neighbours in the order of keys, which no scan may show.
        for (database, collection) in [("test", "b"), ("test", "ca"), ("tesu", "c")] {
            let other = rawdoc! { "insert": collection, "documents": [{ "_id": 0 }], "$db": database };
            assert!(served.service.answer(&mut client, &command(&other), &mut Vec::new()));
        }
        let mut scan = |find: RawDocumentBuf, size: Option<i32>| {
            let mut reply = served.ask(&mut client, find);
            let (mut ids, mut batches, mut name) = (Vec::new(), Vec::new(), "firstBatch");
            loop {
                let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("{reply}"));
                let batch = cursor.get_array(name).unwrap();
                batches.push(batch.len());
                ids.extend(batch.iter().map(|it| it.as_document().unwrap().get_i32("_id").unwrap()));
                let id = cursor.get_i64("id").unwrap();
                if id == 0 {
                    assert!(ids.iter().copied().eq(0..i32::try_from(ids.len()).unwrap()), "{ids:?}");
                    return batches;
                }
                name = "nextBatch";
                let mut more = rawdoc! { "getMore": id, "collection": "c" };
                if let Some(size) = size {
                    more.append(cstr!("batchSize"), size);
                }
                reply = served.ask(&mut client, more);
            }
        };
        assert_eq!(scan(rawdoc! { "find": "c", "filter": {} }, None), [101, 149]);
        assert_eq!(scan(rawdoc! { "find": "c", "batchSize": 100 }, Some(100)), [100, 100, 50]);
        assert_eq!(scan(rawdoc! { "find": "c", "batchSize": 125 }, Some(125)), [125, 125]);
        assert_eq!(scan(rawdoc! { "find": "c", "batchSize": 0, "limit": 30_i64 }, Some(20)), [0, 20, 10]);
        assert_eq!(scan(rawdoc! { "find": "c", "limit": 10, "batchSize": 10.0 }, None), [10]);
        assert_eq!(
            scan(rawdoc! { "find": "c", "limit": 10, "singleBatch": true, "batchSize": 5 }, None),
            [5]
        );
        assert_eq!(scan(rawdoc! { "find": "none" }, None), [0]);

        let names = served.ask(&mut client, rawdoc! { "listDatabases": 1, "nameOnly": true, "filter": {} });
        assert_eq!(names, doc! { "databases": [{ "name": "test" }, { "name": "tesu" }], "ok": 1.0 });
    });
}

#[test]
fn cursors_belong_to_their_collection_and_end() {
    on_each(|served| {
        let mut client = served.client();
        served.ask(&mut client, insert((0..9).map(|id| rawdoc! { "_id": id })));
        let reply = served.ask(&mut client, rawdoc! { "find": "c", "batchSize": 2 });
        let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
        // Of another connection, as drivers may do.
        let mut other = served.client();
        assert_eq!(code(&served.ask(&mut other, rawdoc! { "getMore": id, "collection": "d" })), 13);
        let more = served.ask(&mut other, rawdoc! { "getMore": id, "collection": "c", "batchSize": 1 });
        assert_eq!(more.get_document("cursor").unwrap().get_i64("id").ok(), Some(id));
        let killed = served.ask(&mut client, rawdoc! { "killCursors": "c", "cursors": [id, 77_i64] });
        assert_eq!(killed.get_array("cursorsKilled").unwrap(), &[Bson::Int64(id)]);
        assert_eq!(killed.get_array("cursorsNotFound").unwrap(), &[Bson::Int64(77)]);
        assert_eq!(code(&served.ask(&mut client, rawdoc! { "getMore": id, "collection": "c" })), 43);
    });
}

#[test]
fn a_projection_shows_what_it_names() {
    on_each(|served| {
        let mut client = served.client();
        served.ask(&mut client, insert([rawdoc! { "_id": 1, "a": 1, "b": 2, "c": 3 }]));
        let mut shown = |projection: RawDocumentBuf| {
            let by_id = rawdoc! { "find": "c", "filter": { "_id": 1 }, "projection": projection.clone() };
            let all = rawdoc! { "find": "c", "projection": projection };
            let found = found(served, &mut client, by_id);
            assert_eq!(common_names(&found), common_names(&self::found(served, &mut client, all)));
            common_names(&found)
        };
        assert_eq!(shown(rawdoc! {}), "_id a b c");
        assert_eq!(shown(rawdoc! { "_id": false }), "a b c");
        assert_eq!(shown(rawdoc! { "_id": 1 }), "_id");
        assert_eq!(shown(rawdoc! { "c": 1, "a": true }), "_id a c");
        assert_eq!(shown(rawdoc! { "_id": 0, "b": 1.0 }), "b");
        assert_eq!(shown(rawdoc! { "b": 0 }), "_id a c");
    });
}

fn common_names(documents: &[Bson]) -> String {
    let names = documents[0].as_document().unwrap().keys();
    names.map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_not_served_is_refused() {
    on_each(|served| {
        let mut client = served.client();
        served.ask(&mut client, insert([rawdoc! { "_id": 1, "a": 1 }]));
        let find = |filter: RawDocumentBuf| rawdoc! { "find": "c", "filter": filter };
        for (body, expected) in [
            (rawdoc! { "aggregate": "c", "pipeline": [], "cursor": {} }, 59),
            (rawdoc! { "dropDatabase": 1 }, 59),
            (find(rawdoc! { "a": 1 }), 2),
            (find(rawdoc! { "_id": 1, "a": 1 }), 2),
            (find(rawdoc! { "_id": { "$gte": 1 } }), 2),
            (find(rawdoc! { "_id": [1] }), 2),
            (rawdoc! { "find": "c", "sort": { "_id": 1 } }, 40415),
            (rawdoc! { "find": "c", "skip": 1 }, 40415),
            (rawdoc! { "find": "c", "limit": -1 }, 14),
            (rawdoc! { "find": "c", "limit": "many" }, 14),
            (rawdoc! { "find": "c", "projection": { "a.b": 1 } }, 2),
            (rawdoc! { "find": "c", "projection": { "a": 1, "b": 0 } }, 2),
            (rawdoc! { "find": "c", "projection": { "a": "$b" } }, 2),
            (rawdoc! { "find": 1 }, 73),
            (rawdoc! { "find": "" }, 73),
            (rawdoc! { "find": "c\0d" }, 73),
            (rawdoc! { "insert": "c" }, 40414),
            (rawdoc! { "insert": "c", "documents": [] }, 16),
            (rawdoc! { "insert": "c", "documents": [1] }, 14),
            (rawdoc! { "insert": "c", "documents": [{ "x": 1 }], "writeConcern": { "w": 2 } }, 2),
            (rawdoc! { "insert": "c", "documents": [{ "x": 1 }], "txnNumber": 1_i64 }, 20),
            (rawdoc! { "getMore": 99_i64, "collection": "c" }, 43),
        ] {
            assert_eq!(code(&served.ask(&mut client, body.clone())), expected, "{body:?}");
        }
        for (q, u, expected) in [
            (rawdoc! {}, rawdoc! { "$set": { "a": 2 } }, 2),
            (rawdoc! { "a": 1 }, rawdoc! { "$set": { "a": 2 } }, 2),
            (rawdoc! { "_id": 1 }, rawdoc! { "$inc": { "a": 2 } }, 9),
            (rawdoc! { "_id": 1 }, rawdoc! { "$set": { "a.b": 2 } }, 9),
            (rawdoc! { "_id": 1 }, rawdoc! { "$set": { "a": 2 }, "b": 1 }, 9),
            (rawdoc! { "_id": 1 }, rawdoc! { "$set": { "_id": 2 } }, 66),
            (rawdoc! { "_id": 1 }, rawdoc! { "_id": 2, "a": 1 }, 66),
            (rawdoc! { "_id": 1 }, rawdoc! { "a": "x".repeat(17 << 20) }, 10334),
        ] {
            let reply = served.ask(&mut client, update(q, u, false));
            let errors = reply.get_array("writeErrors").unwrap_or_else(|_| panic!("{reply}"));
            assert_eq!(errors[0].as_document().unwrap().get_i32("code").ok(), Some(expected), "{reply}");
        }
        assert_eq!(by_id(served, &mut client, 1), [bson!({ "_id": 1, "a": 1 })], "nothing has changed");
    });
}

#[test]
fn clients_learn_what_the_server_is() {
    on_each(|served| {
        let mut client = served.client();
        let hello = served.ask(&mut client, rawdoc! { "hello": 1, "helloOk": true });
        assert_eq!(
            (hello.get_bool("isWritablePrimary").ok(), hello.get_i32("maxWireVersion").ok()),
            (Some(true), Some(17))
        );
        assert_eq!(hello.get_i32("connectionId").ok(), Some(1));
        let old = served.ask(&mut client, rawdoc! { "isMaster": 1 });
        assert_eq!(
            (old.get_bool("ismaster").ok(), old.get_i32("maxMessageSizeBytes").ok()),
            (Some(true), Some(48_000_000))
        );
        let info = served.ask(&mut client, rawdoc! { "buildInfo": 1 });
        assert_eq!(info.get_array("storageEngines").unwrap(), &[Bson::String(served.engine.version())]);
        for name in ["ping", "endSessions"] {
            assert_eq!(served.ask(&mut client, common::named(name, 1)), doc! { "ok": 1.0 });
        }
    });
}

#[test]
fn sequences_count_as_arrays_and_some_messages_want_no_reply() {
    on_each(|served| {
        let mut client = served.client();
        let body = rawdoc! { "insert": "c", "$db": "test", "writeConcern": { "w": 1, "j": true } };
        let documents = [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
        let sequences: [(&str, &[RawDocumentBuf]); 1] = [("documents", &documents)];
        let mut reply = Vec::new();
        assert!(served.service.answer(
            &mut client,
            &message(OP_MSG, &contents(0, &body, &sequences)),
            &mut reply
        ));
        assert_eq!(answer(&reply), doc! { "n": 2, "ok": 1.0 });

        reply.clear();
        let body = rawdoc! { "delete": "c", "$db": "test", "writeConcern": { "w": 0 } };
        let sequences: [(&str, &[RawDocumentBuf]); 1] =
            [("deletes", &[rawdoc! { "q": { "_id": 1 }, "limit": 1 }])];
        let silent = message(OP_MSG, &contents(MORE_TO_COME, &body, &sequences));
        assert!(served.service.answer(&mut client, &silent, &mut reply));
        assert!(reply.is_empty());
        assert_eq!(found(served, &mut client, rawdoc! { "find": "c" }), [bson!({ "_id": 2 })]);
    });
}

#[test]
fn no_update_of_many_connections_is_lost() {
    const THREADS: i32 = 8;
    const ROUNDS: i32 = 60;
    on_each(|served| {
        thread::scope(|scope| {
            for number in 0..THREADS {
                scope.spawn(move || {
                    let mut client = served.client();
                    for round in 1..=ROUNDS {
                        let set = common::named("$set", common::named(&format!("field{number}"), round));
                        let reply = served.ask(&mut client, update(rawdoc! { "_id": "all" }, set, true));
                        assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
                    }
                });
            }
        });
        let all = by_id(served, &mut served.client(), "all");
        let all = all[0].as_document().unwrap();
        assert_eq!(all.len(), 1 + THREADS as usize);
        assert!(all.iter().skip(1).all(|(_, value)| *value == Bson::Int32(ROUNDS)), "{all}");
    });
}
