//! Another transaction commits while a reader is on its way to the data component: it sees what its
//! snapshot shows all the same.

#[path = "common/map.rs"]
mod map;

use manx::txn::{Batch, Bounds, Change, Data, DataError, Entry, Isolation, Options, Recovered, Store, Value};
use map::Map;
use std::sync::{Arc, Mutex};

type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Does something, once, before the next reading.
#[derive(Default, Clone)]
struct Hooked {
    map: Map,
    hook: Hook,
}

impl Hooked {
    fn run(&self) {
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
    }
}

impl Data for Hooked {
    fn recover(&self) -> Result<Recovered, DataError> {
        self.map.recover()
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
        self.run();
        self.map.get_many(keys)
    }

    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
        self.run();
        self.map.scan(bounds, descending, limit)
    }

    fn append(&self, batch: Batch<'_>) -> Result<u64, DataError> {
        self.map.append(batch)
    }

    fn wait(&self, place: u64) -> Result<(), DataError> {
        self.map.wait(place)
    }

    fn durable(&self) -> u64 {
        self.map.durable()
    }
}

#[test]
fn a_reader_of_the_data_component_looks_above_once_more() {
    for is_scan in [false, true] {
        let data = Hooked::default();
        let before = [Change::Put { key: (*b"k").into(), value: (*b"old").into() }];
        data.map.apply(Batch::new(&before, false)).unwrap();
        let store = Store::open(Options::default(), Box::new(data.clone())).unwrap();
        let mut session = store.session().unwrap();
        let mut reader = session.begin(Isolation::Snapshot).unwrap();
        let writer = store.clone();
        *data.hook.lock().unwrap() = Some(Box::new(move || {
            let change = |it: &mut manx::txn::Transaction<'_>| {
                it.put(b"k", b"new")?;
                it.put(b"l", b"new")
            };
            writer.run(Isolation::Snapshot, change).expect("in nobody's way");
        }));
        let mut seen = Vec::new();
        if is_scan {
            seen.extend(reader.scan::<[u8], _>(..).map(|entry| entry.unwrap().1));
        } else {
            seen.extend(reader.get(b"k").unwrap());
            seen.extend(reader.get(b"l").unwrap());
        }
        assert_eq!(seen, [Value::from(*b"old")]);
        assert!(data.hook.lock().unwrap().is_none(), "somebody committed meanwhile");
        assert_eq!(&**data.map.0.lock().unwrap().get(&b"k"[..]).unwrap(), b"new");
    }
}
