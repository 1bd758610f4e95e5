//! The components that this package has do what a component has to (`common/component.rs`).

#[path = "common/component.rs"]
mod component;
#[path = "common/map.rs"]
mod map;

use manx::txn::durable::{Durable, DurableOptions};
use map::Map;

/// A log that is full after some tens of batches.
const SHORT: DurableOptions = DurableOptions::new().log_bytes(4 << 10).cache_bytes(1 << 20);

#[test]
fn a_map_conforms() {
    component::conforms(Map::default);
    let map = Map::default();
    component::survives(|| map.clone());
}

#[test]
fn a_folder_conforms() {
    let folders = tempfile::tempdir().expect("a folder");
    let mut count = 0;
    component::conforms(|| {
        count += 1;
        let folder = folders.path().join(count.to_string());
        std::fs::create_dir(&folder).expect("made");
        Durable::open(folder, SHORT).expect("opened")
    });
    let folder = tempfile::tempdir().expect("a folder");
    component::survives(|| Durable::open(folder.path(), SHORT).expect("opened"));
}
