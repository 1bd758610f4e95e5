//! The commands: what each one asks of the engine, and how it is answered.
//!
//! The replies have the fields and the error codes that mongod's have, as a standalone server of
//! version 6.0 with one engine. What is not served is refused, never ignored, but for the fields in
//! `fields.rs` that change nothing here.

use crate::cursors::{Cursor, Cursors, Projection, stored};
use crate::engine::{Failed, Session, Write};
use crate::fault::{Code, Fault, shown};
use crate::fields::{Fields, integer};
use crate::keys::{Namespace, id_of_filter};
use crate::update::{DOCUMENT_BYTES_MAX, Update};
use crate::wire::{Header, MESSAGE_BYTES_MAX, Request};
use bson::oid::ObjectId;
use bson::raw::{CStr, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use bson::{DateTime, rawdoc};
use manx::pool::block_in_place;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

/// The version that clients are told, and its number in the protocol.
const VERSION: &str = "6.0.0";
const WIRE_VERSION: i32 = 17;
/// The most statements of one command: mongod's limit.
const STATEMENTS_MAX: usize = 100_000;
/// The documents of the first batch, if the client does not say: mongod's number.
const FIRST_BATCH: u64 = 101;

/// The part that all connections share.
#[derive(Debug)]
pub struct Service {
    engine: String,
    cursors: Cursors,
    replies: AtomicI32,
}

/// A connection.
pub struct Client {
    /// Its number, from 1.
    pub number: i32,
    /// Its session of the engine.
    pub session: Box<dyn Session>,
}

/// Statements of a command that writes, and how far they came.
struct Writes<'a> {
    statements: Vec<&'a RawDocument>,
    is_ordered: bool,
    is_journaled: bool,
    namespace: Namespace,
    errors: RawArrayBuf,
}

impl Service {
    /// Serves an engine of this name.
    pub fn new(engine: String) -> Service {
        Service { engine, cursors: Cursors::default(), replies: AtomicI32::new(0) }
    }

    /// Does what a message asks for, and appends the reply, if there is to be one. False: the
    /// message is of a kind that cannot be answered.
    pub fn answer(&self, client: &mut Client, message: &[u8], reply: &mut Vec<u8>) -> bool {
        let Some(header) = Header::of(message) else { return false };
        let done = Request::of(message).and_then(|request| self.run(client, &request));
        let body = done.unwrap_or_else(|fault| fault.reply());
        if header.is_answered {
            let id = self.replies.fetch_add(1, Ordering::Relaxed);
            header.reply(id, &body, reply);
        }
        true
    }

    fn run(&self, client: &mut Client, request: &Request<'_>) -> Result<RawDocumentBuf, Fault> {
        let name = request.body.into_iter().next().transpose()?.map_or("", |(name, _)| name.as_str());
        let mut fields = Fields::of(name, request.body)?;
        let target = fields.take(name);
        let database = match request.database {
            Some(database) => database,
            None => fields
                .text("$db")?
                .ok_or_else(|| Fault::new(Code::Location40571, "OP_MSG requests require a $db argument"))?,
        };
        if fields.take("txnNumber").is_some() || fields.take("startTransaction").is_some() {
            let message = "Transaction numbers are only allowed on a replica set member or mongos";
            return Err(Fault::new(Code::IllegalOperation, message));
        }
        let namespace = |collection: Option<RawBsonRef<'_>>| match collection.and_then(RawBsonRef::as_str) {
            Some(collection) => Namespace::new(database, collection),
            None => {
                Err(Fault::new(Code::InvalidNamespace, format!("{name}: the collection has to be a string")))
            }
        };
        match name {
            "hello" | "isMaster" | "ismaster" => Ok(hello(name, client.number)),
            "ping" | "endSessions" => Ok(rawdoc! { "ok": 1.0 }),
            "buildInfo" | "buildinfo" => Ok(self.build_info()),
            "listDatabases" => list_databases(client, fields),
            "insert" => insert(client, Writes::of(fields, request, "documents", namespace(target)?)?),
            "update" => update(client, Writes::of(fields, request, "updates", namespace(target)?)?),
            "delete" => delete(client, Writes::of(fields, request, "deletes", namespace(target)?)?),
            "find" => self.find(client, fields, namespace(target)?),
            "getMore" => {
                let collection = namespace(fields.take("collection"))?;
                self.get_more(client, fields, target, &collection)
            }
            "killCursors" => self.kill_cursors(fields, &namespace(target)?),
            _ => Err(Fault::new(Code::CommandNotFound, format!("no such command: '{name}'"))),
        }
    }

    fn build_info(&self) -> RawDocumentBuf {
        rawdoc! {
            "version": VERSION,
            "versionArray": [6, 0, 0, 0],
            "bits": 64,
            "maxBsonObjectSize": DOCUMENT_BYTES_MAX as i32,
            "storageEngines": [self.engine.as_str()],
            "ok": 1.0,
        }
    }

    fn find(
        &self,
        client: &mut Client,
        mut fields: Fields<'_>,
        namespace: Namespace,
    ) -> Result<RawDocumentBuf, Fault> {
        let id = fields.document("filter")?.map_or(Ok(None), id_of_filter)?;
        let projection = fields.document("projection")?.map_or(Ok(Projection::default()), Projection::of)?;
        let limit = fields.count("limit")?.filter(|limit| *limit > 0);
        let size = fields.count("batchSize")?.unwrap_or(FIRST_BATCH);
        let is_single = fields.flag("singleBatch", false)?;
        fields.end()?;
        let Some(id) = id else {
            let mut cursor = Cursor::new(namespace.clone(), limit, projection);
            let (batch, more) = retried(|| cursor.batch(&mut *client.session, Some(size)))?;
            let id = if more && !is_single { self.cursors.keep(None, cursor)? } else { 0 };
            return Ok(cursor_reply(cstr!("firstBatch"), batch, id, &namespace));
        };
        let key = namespace.key(id)?;
        let mut batch = RawArrayBuf::new();
        retried(|| {
            client.session.transact(&key, &mut |found| {
                batch = RawArrayBuf::new();
                found.map(stored).into_iter().for_each(|document| projection.push(document, &mut batch));
                Write::Nothing
            })
        })?;
        Ok(cursor_reply(cstr!("firstBatch"), batch, 0, &namespace))
    }

    fn get_more(
        &self,
        client: &mut Client,
        mut fields: Fields<'_>,
        id: Option<RawBsonRef<'_>>,
        namespace: &Namespace,
    ) -> Result<RawDocumentBuf, Fault> {
        let size = fields.count("batchSize")?.filter(|size| *size > 0);
        fields.end()?;
        let id = id.and_then(RawBsonRef::as_i64).unwrap_or(0);
        let Some(mut cursor) = self.cursors.take(id) else {
            return Err(Fault::new(Code::CursorNotFound, format!("cursor id {id} not found")));
        };
        if cursor.namespace != *namespace {
            let message =
                format!("getMore of {}: cursor {id} belongs to {}", namespace.name, cursor.namespace.name);
            self.cursors.keep(Some(id), cursor)?;
            return Err(Fault::new(Code::Unauthorized, message));
        }
        let (batch, more) = retried(|| cursor.batch(&mut *client.session, size))?;
        let id = if more { self.cursors.keep(Some(id), cursor)? } else { 0 };
        Ok(cursor_reply(cstr!("nextBatch"), batch, id, namespace))
    }

    fn kill_cursors(&self, mut fields: Fields<'_>, namespace: &Namespace) -> Result<RawDocumentBuf, Fault> {
        let ids = fields.need("cursors")?;
        fields.end()?;
        let (mut killed, mut unknown) = (RawArrayBuf::new(), RawArrayBuf::new());
        for id in ids.as_array().into_iter().flatten() {
            let id = id?.as_i64().unwrap_or(0);
            match self.cursors.take(id) {
                Some(cursor) if cursor.namespace == *namespace => killed.push(id),
                other => {
                    other.map(|cursor| self.cursors.keep(Some(id), cursor)).transpose()?;
                    unknown.push(id);
                }
            }
        }
        let none = RawArrayBuf::new;
        Ok(rawdoc! {
            "cursorsKilled": killed,
            "cursorsNotFound": unknown,
            "cursorsAlive": none(),
            "cursorsUnknown": none(),
            "ok": 1.0,
        })
    }
}

fn hello(name: &str, connection: i32) -> RawDocumentBuf {
    let mut reply = RawDocumentBuf::new();
    let primary = if name == "hello" { cstr!("isWritablePrimary") } else { cstr!("ismaster") };
    reply.append(primary, true);
    reply.append(cstr!("helloOk"), true);
    reply.append(cstr!("maxBsonObjectSize"), DOCUMENT_BYTES_MAX as i32);
    reply.append(cstr!("maxMessageSizeBytes"), MESSAGE_BYTES_MAX as i32);
    reply.append(cstr!("maxWriteBatchSize"), STATEMENTS_MAX as i32);
    reply.append(cstr!("localTime"), DateTime::now());
    reply.append(cstr!("logicalSessionTimeoutMinutes"), 30);
    reply.append(cstr!("connectionId"), connection);
    reply.append(cstr!("minWireVersion"), 0);
    reply.append(cstr!("maxWireVersion"), WIRE_VERSION);
    reply.append(cstr!("readOnly"), false);
    reply.append(cstr!("ok"), 1.0);
    reply
}

/// The names of all databases that have a document. From each one it goes on behind all that begin
/// with its name and a dot.
fn list_databases(client: &mut Client, mut fields: Fields<'_>) -> Result<RawDocumentBuf, Fault> {
    let filter = fields.document("filter")?;
    fields.flag("nameOnly", false)?;
    fields.flag("authorizedDatabases", false)?;
    fields.end()?;
    if filter.is_some_and(|filter| !filter.is_empty()) {
        return Err(Fault::new(Code::BadValue, "listDatabases: a filter is not supported"));
    }
    let mut databases = RawArrayBuf::new();
    let mut from = vec![0];
    loop {
        let mut found = None;
        retried(|| {
            client.session.scan(&from, &[0xff], &mut |key, _| {
                found = key.split(|byte| *byte == b'.').next().map(<[u8]>::to_vec);
                ControlFlow::Break(())
            })
        })?;
        let Some(name) = found else { break };
        databases.push(rawdoc! { "name": String::from_utf8_lossy(&name).as_ref() });
        from = [&name[..], &[b'.' + 1]].concat();
    }
    Ok(rawdoc! { "databases": databases, "ok": 1.0 })
}

fn insert(client: &mut Client, mut writes: Writes<'_>) -> Result<RawDocumentBuf, Fault> {
    let mut inserted = 0;
    writes.each(|namespace, _, document| {
        let id = document.get("_id")?.unwrap_or_else(|| ObjectId::new().into());
        // As a replacement of nothing: the `_id` comes first.
        let document = Update::Replace(document).apply(id, None)?;
        let mut is_there = false;
        transact(client, &namespace.key(id)?, |found| {
            is_there = found.is_some();
            if is_there { Write::Nothing } else { Write::Put(document.as_bytes().to_vec()) }
        })?;
        if is_there {
            let (name, id) = (&namespace.name, shown(id));
            let message =
                format!("E11000 duplicate key error collection: {name} index: _id_ dup key: {{ _id: {id} }}");
            return Err(Fault::new(Code::DuplicateKey, message));
        }
        inserted += 1;
        Ok(())
    });
    writes.reply(client, inserted, |_| ())
}

fn update(client: &mut Client, mut writes: Writes<'_>) -> Result<RawDocumentBuf, Fault> {
    let (mut matched, mut modified, mut upserted) = (0, 0, RawArrayBuf::new());
    writes.each(|namespace, index, statement| {
        let mut fields = Fields::of("update.updates", statement)?;
        let id = by_id(&mut fields)?;
        let update = Update::of(fields.need("u")?)?;
        let is_multi = fields.flag("multi", false)?;
        let upsert = fields.flag("upsert", false)?;
        fields.end()?;
        if is_multi && matches!(update, Update::Replace(_)) {
            return Err(Fault::new(
                Code::FailedToParse,
                "multi update is not supported for replacement-style update",
            ));
        }
        let mut outcome = Ok(Matched::None);
        transact(client, &namespace.key(id)?, |found| {
            if found.is_none() && !upsert {
                outcome = Ok(Matched::None);
                return Write::Nothing;
            }
            let before = found.map(stored);
            match update.apply(id, before) {
                Ok(after) if before.is_some_and(|before| *before == *after) => {
                    outcome = Ok(Matched::Same);
                    Write::Nothing
                }
                Ok(after) => {
                    outcome = Ok(if before.is_some() { Matched::Changed } else { Matched::New });
                    Write::Put(after.into_bytes())
                }
                Err(fault) => {
                    outcome = Err(fault);
                    Write::Nothing
                }
            }
        })?;
        let outcome = outcome?;
        matched += i32::from(outcome != Matched::None);
        modified += i32::from(outcome == Matched::Changed);
        if outcome == Matched::New {
            let mut new = rawdoc! { "index": index };
            new.append(cstr!("_id"), id);
            upserted.push(new);
        }
        Ok(())
    });
    writes.reply(client, matched, |reply| {
        reply.append(cstr!("nModified"), modified);
        if !upserted.is_empty() {
            reply.append(cstr!("upserted"), upserted);
        }
    })
}

/// The records that an update has found and changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matched {
    None,
    Same,
    Changed,
    New,
}

fn delete(client: &mut Client, mut writes: Writes<'_>) -> Result<RawDocumentBuf, Fault> {
    let mut deleted = 0;
    writes.each(|namespace, _, statement| {
        let mut fields = Fields::of("delete.deletes", statement)?;
        let id = by_id(&mut fields)?;
        // One document has this `_id`, or none.
        fields.count("limit")?;
        fields.end()?;
        let mut is_there = false;
        transact(client, &namespace.key(id)?, |found| {
            is_there = found.is_some();
            if is_there { Write::Delete } else { Write::Nothing }
        })?;
        deleted += i32::from(is_there);
        Ok(())
    });
    writes.reply(client, deleted, |_| ())
}

/// The `_id` that the `q` of a statement names.
fn by_id<'a>(fields: &mut Fields<'a>) -> Result<RawBsonRef<'a>, Fault> {
    let filter = fields.document("q")?;
    filter.map_or(Ok(None), id_of_filter)?.ok_or_else(|| {
        Fault::new(Code::BadValue, "a write without a filter is not supported: give one value of _id")
    })
}

/// The documents of an array.
fn documents<'a>(array: RawBsonRef<'a>, name: &str) -> Result<Vec<&'a RawDocument>, Fault> {
    let refused = || Fault::new(Code::TypeMismatch, format!("'{name}' has to be an array of documents"));
    let elements = array.as_array().ok_or_else(refused)?.into_iter();
    elements.map(|element| element?.as_document().ok_or_else(refused)).collect()
}

/// True if a write is answered only when it is in the journal on the disk.
fn is_journaled(concern: &RawDocument) -> Result<bool, Fault> {
    let mut fields = Fields::of("writeConcern", concern)?;
    match fields.take("w") {
        None => (),
        Some(RawBsonRef::String("majority")) => (),
        Some(w) if integer(w).is_some_and(|w| (0..=1).contains(&w)) => (),
        Some(_) => {
            let message = "cannot use 'w' > 1 when a host is not replicated";
            return Err(Fault::new(Code::BadValue, message));
        }
    }
    fields.count("wtimeout")?;
    let is_journaled = fields.flag("j", false)?;
    let is_synced = fields.flag("fsync", false)?;
    fields.end()?;
    Ok(is_journaled || is_synced)
}

fn cursor_reply(name: &CStr, batch: RawArrayBuf, id: i64, namespace: &Namespace) -> RawDocumentBuf {
    let mut cursor = RawDocumentBuf::new();
    cursor.append(name, batch);
    cursor.append(cstr!("id"), id);
    cursor.append(cstr!("ns"), namespace.name.as_str());
    rawdoc! { "cursor": cursor, "ok": 1.0 }
}

fn transact(
    client: &mut Client,
    key: &[u8],
    mut decide: impl FnMut(Option<&[u8]>) -> Write,
) -> Result<(), Fault> {
    retried(|| client.session.transact(key, &mut decide))
}

/// Tries until no other transaction is first, with mongod's pauses. Of the transactions that
/// conflict, one has succeeded each time.
fn retried<T>(mut work: impl FnMut() -> Result<T, Failed>) -> Result<T, Fault> {
    for times in 1_u64.. {
        match work() {
            Err(Failed::Conflict) => {
                let pause_ms = match times {
                    0..4 => continue,
                    4..10 => 1,
                    10..100 => 5,
                    _ => 10,
                };
                block_in_place(|| thread::sleep(Duration::from_millis(pause_ms)));
            }
            done => return Ok(done?),
        }
    }
    unreachable!("it goes on until it is done")
}

impl<'a> Writes<'a> {
    fn of(
        mut fields: Fields<'a>,
        request: &Request<'a>,
        name: &str,
        namespace: Namespace,
    ) -> Result<Writes<'a>, Fault> {
        let beside = request.sequences.iter().find(|(sequence, _)| *sequence == name);
        let statements = match beside {
            Some((_, documents)) => documents.clone(),
            None => documents(fields.need(name)?, name)?,
        };
        let is_ordered = fields.flag("ordered", true)?;
        let is_journaled = fields.document("writeConcern")?.map_or(Ok(false), is_journaled)?;
        fields.flag("bypassDocumentValidation", false)?;
        fields.end()?;
        if !(1..=STATEMENTS_MAX).contains(&statements.len()) {
            let message = format!(
                "Write batch sizes must be between 1 and {STATEMENTS_MAX}. Got {} operations.",
                statements.len()
            );
            return Err(Fault::new(Code::InvalidLength, message));
        }
        Ok(Writes { statements, is_ordered, is_journaled, namespace, errors: RawArrayBuf::new() })
    }

    /// Does one after the other; with `ordered` the first error ends it.
    fn each(&mut self, mut one: impl FnMut(&Namespace, i32, &'a RawDocument) -> Result<(), Fault>) {
        for (index, statement) in self.statements.iter().enumerate() {
            let index = i32::try_from(index).expect("there is a limit");
            let Err(fault) = one(&self.namespace, index, statement) else { continue };
            let mut error =
                rawdoc! { "index": index, "code": fault.code as i32, "errmsg": fault.message.as_str() };
            if let (Code::DuplicateKey, Ok(Some(id))) = (fault.code, statement.get("_id")) {
                error.append(cstr!("keyPattern"), rawdoc! { "_id": 1 });
                let mut value = RawDocumentBuf::new();
                value.append(cstr!("_id"), id);
                error.append(cstr!("keyValue"), value);
            }
            self.errors.push(error);
            if self.is_ordered {
                break;
            }
        }
    }

    fn reply(
        self,
        client: &mut Client,
        n: i32,
        more: impl FnOnce(&mut RawDocumentBuf),
    ) -> Result<RawDocumentBuf, Fault> {
        if self.is_journaled {
            // A worker of a pool lets another one run meanwhile.
            block_in_place(|| client.session.flush())?;
        }
        let mut reply = rawdoc! { "n": n };
        more(&mut reply);
        if !self.errors.is_empty() {
            reply.append(cstr!("writeErrors"), self.errors);
        }
        reply.append(cstr!("ok"), 1.0);
        Ok(reply)
    }
}
