//! The components that this package has do what a component has to (`common/component.rs`).

#[path = "common/component.rs"]
mod component;
#[path = "common/map.rs"]
mod map;

use map::Map;

#[test]
fn a_map_conforms() {
    component::conforms(Map::default);
    let map = Map::default();
    component::survives(|| map.clone());
}
