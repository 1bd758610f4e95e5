//! Places on the earth, as the numbers that stand for them in a sorted set, and the cells in which
//! a search looks.
//!
//! Longitudes and latitudes are each cut into 2²⁶ parts; the bits of the two numbers alternate, the
//! longitude's first. So a *cell*, which is all that begins with the same pairs of bits, is a range
//! of numbers. A search looks in a cell that is about as large as what is searched, and in those
//! around it. Distances are those on a sphere.

use std::f64::consts::PI;

/// Pairs of bits.
const STEPS_MAX: u32 = 26;
const LONGITUDE_MAX: f64 = 180.0;
/// Where the map is as high as it is wide.
const LATITUDE_MAX: f64 = 85.051_128_78;
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Half of the map's width.
const MAP_MAX_M: f64 = 20_037_726.37;

/// A place, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) longitude: f64,
    pub(crate) latitude: f64,
}

/// A part of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    column: u32,
    row: u32,
    steps: u32,
}

/// From west to east, and from south to north, in degrees.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
}

/// What is searched, around a place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Circle { radius_m: f64 },
    Box { width_m: f64, height_m: f64 },
}

/// Puts a zero before each bit.
fn spread(bits: u32) -> u64 {
    (0..32).fold(0, |spread, at| spread | u64::from(bits >> at & 1) << (2 * at))
}

/// The reverse, whatever is between the bits.
fn gather(bits: u64) -> u32 {
    (0..32).fold(0, |gathered, at| gathered | ((bits >> (2 * at) & 1) as u32) << at)
}

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

impl Place {
    /// None if it is not on the map.
    pub(crate) fn new(longitude: f64, latitude: f64) -> Option<Place> {
        let is_there = longitude.abs() <= LONGITUDE_MAX && latitude.abs() <= LATITUDE_MAX;
        is_there.then_some(Place { longitude, latitude })
    }

    /// The score that stands for it.
    pub(crate) fn score(self) -> f64 {
        Cell::of(self, STEPS_MAX, LATITUDE_MAX).bits() as f64
    }

    /// The middle of what a score stands for.
    pub(crate) fn at(score: f64) -> Place {
        let bits = score as u64;
        let cell = Cell { column: gather(bits >> 1), row: gather(bits), steps: STEPS_MAX };
        let Bounds { west, south, east, north } = cell.bounds();
        Place {
            longitude: ((west + east) / 2.0).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: ((south + north) / 2.0).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// Its geohash: ten letters from the cell, and a 0.
    pub(crate) fn geohash(self) -> String {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::of(self, STEPS_MAX, 90.0).bits();
        let letter = |number: u32| char::from(LETTERS[(bits >> (52 - 5 * number) & 31) as usize]);
        (1..=10).map(letter).chain(['0']).collect()
    }

    pub(crate) fn distance_m(self, other: Place) -> f64 {
        let half = |one: f64, two: f64| ((radians(two) - radians(one)) / 2.0).sin();
        let across = half(self.longitude, other.longitude);
        if across == 0.0 {
            return distance_of_latitudes_m(self.latitude, other.latitude);
        }
        let along = half(self.latitude, other.latitude);
        let cosines = radians(self.latitude).cos() * radians(other.latitude).cos();
        2.0 * EARTH_RADIUS_M * (along * along + cosines * across * across).sqrt().asin()
    }
}

fn distance_of_latitudes_m(one: f64, two: f64) -> f64 {
    EARTH_RADIUS_M * (radians(two) - radians(one)).abs()
}

impl Cell {
    /// The cell in which a place is, on a map that ends at this latitude.
    fn of(place: Place, steps: u32, latitude_max: f64) -> Cell {
        let part = |at: f64, max: f64| ((at + max) / (max - -max) * f64::from(1 << steps)) as u32;
        let (column, row) = (part(place.longitude, LONGITUDE_MAX), part(place.latitude, latitude_max));
        Cell { column, row, steps }
    }

    fn bits(self) -> u64 {
        spread(self.column) << 1 | spread(self.row)
    }

    /// The first score that stands for a place here, and the first one behind.
    pub(crate) fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        ((self.bits() << shift) as f64, ((self.bits() + 1) << shift) as f64)
    }

    fn bounds(self) -> Bounds {
        let at = |number: u32, max: f64| -max + f64::from(number) / f64::from(1 << self.steps) * (max - -max);
        Bounds {
            west: at(self.column, LONGITUDE_MAX),
            south: at(self.row, LATITUDE_MAX),
            east: at(self.column.wrapping_add(1), LONGITUDE_MAX),
            north: at(self.row.wrapping_add(1), LATITUDE_MAX),
        }
    }

    /// Its neighbour to the east and to the north, or on the other sides. The map has no edges.
    fn neighbour(self, (east, north): (i32, i32)) -> Cell {
        let mask = (1 << self.steps) - 1;
        let moved = |at: u32, by: i32| if by == 0 { at } else { at.wrapping_add_signed(by) & mask };
        Cell { column: moved(self.column, east), row: moved(self.row, north), ..self }
    }
}

impl Shape {
    /// How far a place is from the middle, if it is within.
    pub(crate) fn distance_m(self, middle: Place, place: Place) -> Option<f64> {
        let is_within = match self {
            Shape::Circle { radius_m } => middle.distance_m(place) <= radius_m,
            Shape::Box { width_m, height_m } => {
                distance_of_latitudes_m(place.latitude, middle.latitude) <= height_m / 2.0
                    && place.distance_m(Place { longitude: middle.longitude, ..place }) <= width_m / 2.0
            }
        };
        is_within.then(|| middle.distance_m(place))
    }

    /// A box of degrees around it.
    fn bounds(self, Place { longitude, latitude }: Place) -> Bounds {
        let (width_m, height_m) = match self {
            Shape::Circle { radius_m } => (radius_m, radius_m),
            Shape::Box { width_m, height_m } => (width_m / 2.0, height_m / 2.0),
        };
        let up = degrees(height_m / EARTH_RADIUS_M);
        // Meridians are closer to each other on the side that is away from the equator.
        let outer = if latitude < 0.0 { latitude - up } else { latitude + up };
        let aside = degrees(width_m / EARTH_RADIUS_M / radians(outer).cos());
        Bounds {
            west: longitude - aside,
            south: latitude - up,
            east: longitude + aside,
            north: latitude + up,
        }
    }

    /// With how many pairs of bits a cell is about as large.
    fn steps(self, latitude: f64) -> u32 {
        let mut radius_m = match self {
            Shape::Circle { radius_m } => radius_m,
            Shape::Box { width_m, height_m } => {
                (width_m / 2.0 * (width_m / 2.0) + height_m / 2.0 * (height_m / 2.0)).sqrt()
            }
        };
        if radius_m == 0.0 {
            return STEPS_MAX;
        }
        let mut steps: i32 = -1;
        while radius_m < MAP_MAX_M {
            radius_m *= 2.0;
            steps += 1;
        }
        // Cells are narrow close to the poles.
        steps -= i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
        steps.clamp(1, STEPS_MAX as i32) as u32
    }

    /// The cells that have all of it, in the order in which Redis looks at them.
    pub(crate) fn cells(self, middle: Place) -> Vec<Cell> {
        let bounds = self.bounds(middle);
        let cell = |steps| Cell::of(middle, steps, LATITUDE_MAX);
        let mut steps = self.steps(middle.latitude);
        let side = |to| cell(steps).neighbour(to).bounds();
        let is_too_small = side((0, 1)).north < bounds.north
            || side((0, -1)).south > bounds.south
            || side((1, 0)).east < bounds.east
            || side((-1, 0)).west > bounds.west;
        if steps > 1 && is_too_small {
            steps -= 1;
        }
        let (cell, own) = (cell(steps), cell(steps).bounds());
        let is_needed = |&(east, north): &(i32, i32)| {
            steps < 2
                || !(north < 0 && own.south < bounds.south
                    || north > 0 && own.north > bounds.north
                    || east < 0 && own.west < bounds.west
                    || east > 0 && own.east > bounds.east)
        };
        let around = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells = vec![cell];
        for neighbour in around.into_iter().filter(is_needed).map(|to| cell.neighbour(to)) {
            // With large cells two neighbours may be the same.
            if cells.len() == 1 || cells.last() != Some(&neighbour) {
                cells.push(neighbour);
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_become_scores_and_scores_places() {
        let palermo = Place::new(13.361_389, 38.115_556).unwrap();
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        let found = Place::at(palermo.score());
        assert!(palermo.distance_m(found) < 1.0);
        assert_eq!(found.geohash(), "sqc8b49rny0");
        assert_eq!(gather(spread(0xDEAD_BEEF)), 0xDEAD_BEEF);
        assert!(Place::new(180.1, 0.0).is_none() && Place::new(0.0, -85.1).is_none());
        assert!(Place::new(f64::NAN, 0.0).is_none() && Place::new(0.0, f64::INFINITY).is_none());
        for score in [f64::NEG_INFINITY, -1.0, 1e300, f64::INFINITY] {
            assert!(Place::at(score).longitude.abs() <= LONGITUDE_MAX);
        }
    }

    #[test]
    fn cells_have_all_of_a_circle() {
        for (longitude, latitude) in [(0.0, 0.0), (13.0, 38.0), (-100.5, -60.2), (77.0, 66.5)] {
            let middle = Place { longitude, latitude };
            for radius_m in [0.0, 1.0, 777.0, 20_000.0, 1_000_000.0] {
                let shape = Shape::Circle { radius_m };
                let cells = shape.cells(middle);
                for at in 0..100 {
                    let (way, turn) = (degrees(radius_m / EARTH_RADIUS_M) * 0.99, f64::from(at) / 16.0);
                    let latitude = latitude + way * turn.sin();
                    let longitude = longitude + way * turn.cos() / radians(latitude).cos();
                    let place = Place { longitude, latitude };
                    if shape.distance_m(middle, place).is_some() {
                        let has = |cell: &Cell| (cell.scores().0..cell.scores().1).contains(&place.score());
                        assert!(cells.iter().any(has), "{radius_m} around {middle:?}: {place:?}");
                    }
                }
            }
        }
    }
}
