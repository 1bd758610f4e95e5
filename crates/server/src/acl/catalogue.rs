//! The names of all commands and subcommands, by number, and the categories that they are in.

use std::collections::HashMap;

/// The categories of Redis, in its order: the number of each is its bit in [`Categories`].
pub(crate) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Some categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Categories(u32);

impl Categories {
    /// Of this name, in any case.
    pub(crate) fn named(name: &[u8]) -> Option<Categories> {
        let index = CATEGORIES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()))?;
        Some(Categories(1 << index))
    }

    /// Those of these names, which are all known.
    pub(crate) fn of(names: &[&str]) -> Categories {
        Categories(
            names
                .iter()
                .filter_map(|name| Categories::named(name.as_bytes()))
                .fold(0, |all, one| all | one.0),
        )
    }

    pub(crate) fn has(self, other: Categories) -> bool {
        self.0 & other.0 != 0
    }

    /// Their names.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        CATEGORIES
            .iter()
            .enumerate()
            .filter(move |(index, _)| self.0 >> index & 1 == 1)
            .map(|(_, name)| *name)
    }
}

/// A command or subcommand.
pub(crate) struct Entry {
    /// In small letters, as `client|id`.
    pub(crate) name: String,
    pub(crate) categories: Categories,
    /// The number of the command whose subcommand it is.
    pub(crate) parent: Option<usize>,
}

/// All of them. The place of each is its number.
pub(crate) struct Catalogue {
    pub(crate) entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

impl Catalogue {
    pub(crate) fn new(entries: Vec<Entry>) -> Catalogue {
        let by_name = entries.iter().enumerate().map(|(id, entry)| (entry.name.clone(), id)).collect();
        Catalogue { entries, by_name }
    }

    /// The number of the command or subcommand of this name, in small letters.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The numbers of a command's subcommands.
    pub(crate) fn subcommands(&self, id: usize) -> impl Iterator<Item = usize> {
        let of_it = move |(_, entry): &(usize, &Entry)| entry.parent == Some(id);
        self.entries.iter().enumerate().filter(of_it).map(|(id, _)| id)
    }

    /// The numbers of those in a category.
    pub(crate) fn within(&self, category: Categories) -> impl Iterator<Item = usize> {
        let is_in = move |(_, entry): &(usize, &Entry)| entry.categories.has(category);
        self.entries.iter().enumerate().filter(is_in).map(|(id, _)| id)
    }
}
