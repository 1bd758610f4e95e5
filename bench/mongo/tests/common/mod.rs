//! Tools that the tests share: messages by hand, and each engine.

#![allow(dead_code, reason = "each test program uses a part")]

use bson::raw::{CString, RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::{Document, RawBson};
use clap::ValueEnum as _;
use mongo::commands::{Client, Service};
use mongo::engine::Engine;
use mongo::engine::store::{ManxStore, Snapshots};
use mongo::engine::wiredtiger::WiredTiger;
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::process::{finish, text};
use testing::skip;

pub const OP_QUERY: i32 = 2004;
pub const OP_MSG: i32 = 2013;
pub const MORE_TO_COME: u32 = 2;

/// A message with these contents.
pub fn message(opcode: i32, contents: &[u8]) -> Vec<u8> {
    let length = i32::try_from(16 + contents.len()).unwrap();
    let mut bytes: Vec<u8> = [length, 7, 0, opcode].into_iter().flat_map(i32::to_le_bytes).collect();
    bytes.extend(contents);
    bytes
}

/// The contents of an OP_MSG: a command, and arrays that stand beside it.
pub fn contents(flags: u32, body: &RawDocument, sequences: &[(&str, &[RawDocumentBuf])]) -> Vec<u8> {
    let mut bytes = flags.to_le_bytes().to_vec();
    bytes.push(0);
    bytes.extend(body.as_bytes());
    for (name, documents) in sequences {
        let mut section = [name.as_bytes(), &[0]].concat();
        documents.iter().for_each(|document| section.extend(document.as_bytes()));
        bytes.push(1);
        bytes.extend(i32::try_from(4 + section.len()).unwrap().to_le_bytes());
        bytes.extend(section);
    }
    bytes
}

/// A command as an OP_MSG.
pub fn command(body: &RawDocument) -> Vec<u8> {
    message(OP_MSG, &contents(0, body, &[]))
}

/// The document in a reply to an OP_MSG.
pub fn answer(reply: &[u8]) -> Document {
    let word = |at: usize| i32::from_le_bytes(reply[at..at + 4].try_into().unwrap());
    assert_eq!(usize::try_from(word(0)).unwrap(), reply.len());
    assert_eq!((word(8), word(12), word(16), reply[20]), (7, OP_MSG, 0, 0), "it answers the request");
    plain(RawDocument::from_bytes(&reply[21..]).unwrap())
}

/// A raw document as one that can be looked into.
pub fn plain(document: &RawDocument) -> Document {
    document.try_into().unwrap()
}

/// A document with one field.
pub fn named(name: &str, value: impl Into<RawBson>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(CString::try_from(name.to_owned()).unwrap(), value.into());
    document
}

/// An array of documents.
pub fn array(documents: impl IntoIterator<Item = RawDocumentBuf>) -> RawArrayBuf {
    documents.into_iter().collect()
}

/// Compiles the shim with the machine's WiredTiger, as its header says; none without.
pub fn shim(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engines/wiredtiger_shim.c");
    let shim = folder.join("shim.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC"]).arg(source).arg("-o").arg(&shim).arg("-lwiredtiger");
    let output = finish(&mut compiler);
    if output.status.success() {
        return Some(shim);
    }
    let words = text(&output.stderr);
    assert!(words.contains("wiredtiger.h: No such file"), "{words}");
    skip("libwiredtiger-dev is not installed");
    None
}

/// A service on an engine, without sockets.
pub struct Served {
    pub service: Service,
    pub engine: Box<dyn Engine>,
}

impl Served {
    pub fn client(&self) -> Client {
        Client { number: 1, session: self.engine.session().unwrap() }
    }

    /// The reply to a command on the database `test`.
    pub fn ask(&self, client: &mut Client, body: RawDocumentBuf) -> Document {
        let mut body = body;
        body.append(bson::raw::cstr!("$db"), "test");
        let mut reply = Vec::new();
        assert!(self.service.answer(client, &command(&body), &mut reply));
        answer(&reply)
    }
}

/// Runs a test on each engine.
pub fn on_each(test: impl Fn(&Served)) {
    let run = |open: &dyn Fn(&Path) -> Box<dyn Engine>| {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path());
        println!("{}", engine.version());
        test(&Served { service: Service::new(engine.version()), engine });
    };
    for &snapshots in Snapshots::value_variants() {
        run(&|folder| Box::new(ManxStore::open(folder, snapshots, 16).unwrap()));
    }
    let folder = tempfile::tempdir().unwrap();
    if let Some(shim) = shim(folder.path()) {
        run(&|folder| Box::new(WiredTiger::open(&shim, folder, 64).unwrap()));
    }
}
