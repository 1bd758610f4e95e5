//! What a user may do, and the rules that say so, one word each.
//!
//! | rules | what |
//! | --- | --- |
//! | `on`, `off` | whether it may log in |
//! | `>PASSWORD`, `<PASSWORD`, `#HASH`, `!HASH`, `nopass`, `resetpass` | its passwords, kept as SHA-256 |
//! | `~GLOB`, `%R~GLOB`, `%W~GLOB`, `%RW~GLOB`, `allkeys`, `resetkeys` | the keys that it may use |
//! | `+NAME`, `-NAME`, `+NAME\|SUB`, `+@CATEGORY`, `-@CATEGORY`, `allcommands`, `nocommands` | the commands |
//! | `&GLOB`, `allchannels`, `resetchannels` | the channels |
//! | `reset` | none of all that |
//!
//! The rules about commands are kept as they were given, so that they can be shown. Each sets or
//! clears the bits of some commands, and the bits are what the rules make of all or none, one after
//! the other. So a rule may be left out if a later one is about all of its bits, or if it changes
//! nothing where it stands.

use super::catalogue::{Catalogue, Categories};
use crate::glob;
use crate::password::{Digest, digest};
use std::fmt::Write as _;
use subtle::{Choice, ConstantTimeEq as _};

/// The bits of commands are in words.
const WORDS: usize = 4;
/// The most commands and subcommands.
#[cfg(test)]
pub(crate) const COMMANDS_MAX: usize = 64 * WORDS;

/// How a command uses its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// It answers something of what the key has.
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// Names that match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    glob: Box<[u8]>,
    allows: Access,
}

/// Keys or channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Patterns {
    has_all: bool,
    some: Vec<Pattern>,
}

impl Patterns {
    fn all() -> Patterns {
        Patterns { has_all: true, some: Vec::new() }
    }

    /// Adds a pattern.
    fn add(&mut self, glob: &[u8], allows: Access) {
        match self.some.iter_mut().find(|known| *known.glob == *glob) {
            Some(known) => {
                known.allows.reads |= allows.reads;
                known.allows.writes |= allows.writes;
            }
            None => self.some.push(Pattern { glob: glob.into(), allows }),
        }
    }
}

/// What a user may do; by default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// It may log in.
    pub(crate) is_on: bool,
    /// It may log in with any password.
    pub(crate) needs_no_password: bool,
    pub(crate) passwords: Vec<Digest>,
    keys: Patterns,
    channels: Patterns,
    commands: [u64; WORDS],
    /// Whether the rules begin with all commands, or with none; and the rules.
    begins_with_all: bool,
    rules: Vec<String>,
    /// All commands, keys and channels: nothing has to be looked at.
    is_unlimited: bool,
}

/// What is wrong with a rule, in Redis's words where it has some.
const UNKNOWN: &str = "Unknown command or category name in ACL";
const SYNTAX: &str = "Syntax error";
const BEHIND_ALL_KEYS: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns";
const BEHIND_ALL_CHANNELS: &str = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels";
const NO_SUCH_PASSWORD: &str = "The password you are trying to remove from the user does not exist";
const BAD_HASH: &str =
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";
const OF_SUBCOMMAND: &str = "Allowing first-arg of a subcommand is not supported";
const FIRST_ARGUMENT: &str =
    "A command that has no subcommands can be allowed or not, and not for one first argument";
const SELECTOR: &str = "Selectors are not supported: a user has one set of rules";

impl Rights {
    /// All rights, with this password or without one.
    pub(crate) fn all(password: Option<Digest>) -> Rights {
        let mut rights = Rights {
            is_on: true,
            needs_no_password: password.is_none(),
            passwords: password.into_iter().collect(),
            keys: Patterns::all(),
            channels: Patterns::all(),
            ..Rights::default()
        };
        rights.set_all(true);
        rights.is_unlimited = true;
        rights
    }

    /// Whether it may use all commands, keys and channels.
    #[inline]
    pub(crate) fn is_unlimited(&self) -> bool {
        self.is_unlimited
    }

    /// Whether it may use the command of this number.
    pub(crate) fn may_run(&self, id: usize) -> bool {
        self.commands[id / 64] >> (id % 64) & 1 == 1
    }

    /// Whether it may use this key in this way.
    pub(crate) fn may_use(&self, key: &[u8], access: Access) -> bool {
        let allows = |pattern: &Pattern| {
            (pattern.allows.reads || !access.reads)
                && (pattern.allows.writes || !access.writes)
                && glob::matches(&pattern.glob, key)
        };
        self.keys.has_all || self.keys.some.iter().any(allows)
    }

    /// Whether it may use this channel; or this pattern of channels, if that is among its own as it
    /// is: no other pattern can be known to fit less.
    pub(crate) fn may_use_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let allows = |pattern: &Pattern| {
            if is_pattern { *pattern.glob == *name } else { glob::matches(&pattern.glob, name) }
        };
        self.channels.has_all || self.channels.some.iter().any(allows)
    }

    /// Whether it may read all keys, whatever their names.
    #[inline]
    pub(crate) fn reads_all_keys(&self) -> bool {
        let is_all = |pattern: &Pattern| pattern.allows.reads && *pattern.glob == *b"*";
        self.is_unlimited || self.keys.has_all || self.keys.some.iter().any(is_all)
    }

    /// Whether it may log in with this password.
    pub(crate) fn admits(&self, password: &Digest) -> bool {
        // All are compared, whichever is right.
        let known = self.passwords.iter().fold(Choice::from(0), |found, one| found | one.ct_eq(password));
        self.is_on && (self.needs_no_password || bool::from(known))
    }

    /// Changes it by a rule.
    ///
    /// # Errors
    /// What is wrong with the rule. Nothing was changed then.
    pub(crate) fn apply(&mut self, rule: &[u8], catalogue: &Catalogue) -> Result<(), &'static str> {
        match &*rule.to_ascii_lowercase() {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            b"allkeys" | b"~*" => self.keys = Patterns::all(),
            b"resetkeys" => self.keys = Patterns::default(),
            b"allchannels" | b"&*" => self.channels = Patterns::all(),
            b"resetchannels" => self.channels = Patterns::default(),
            b"allcommands" | b"+@all" => self.set_all(true),
            b"nocommands" | b"-@all" => self.set_all(false),
            b"reset" => *self = Rights::default(),
            // There are neither payloads nor selectors.
            b"" | b"sanitize-payload" | b"skip-sanitize-payload" | b"clearselectors" => {}
            small => match rule[0] {
                b'>' => self.add_password(digest(&rule[1..])),
                b'#' => self.add_password(hash(&rule[1..])?),
                b'<' => self.remove_password(digest(&rule[1..]))?,
                b'!' => self.remove_password(hash(&rule[1..])?)?,
                b'~' | b'%' if self.keys.has_all => return Err(BEHIND_ALL_KEYS),
                b'~' => self.keys.add(plain(&rule[1..])?, Access { reads: true, writes: true }),
                b'%' => {
                    let (glob, access) = qualified(&rule[1..])?;
                    self.keys.add(plain(glob)?, access);
                }
                b'&' if self.channels.has_all => return Err(BEHIND_ALL_CHANNELS),
                b'&' => self.channels.add(plain(&rule[1..])?, Access::default()),
                b'(' => return Err(SELECTOR),
                b'+' | b'-' => {
                    let small = std::str::from_utf8(small).map_err(|_| UNKNOWN)?;
                    self.set_commands(small, catalogue)?;
                }
                _ => return Err(SYNTAX),
            },
        }
        self.is_unlimited = self.keys.has_all && self.channels.has_all && self.commands == [u64::MAX; WORDS];
        Ok(())
    }

    fn add_password(&mut self, password: Digest) {
        self.needs_no_password = false;
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
    }

    fn remove_password(&mut self, password: Digest) -> Result<(), &'static str> {
        let index = self.passwords.iter().position(|known| *known == password).ok_or(NO_SUCH_PASSWORD)?;
        self.passwords.remove(index);
        Ok(())
    }

    fn set_all(&mut self, allows: bool) {
        self.commands = all_or_none(allows);
        self.begins_with_all = allows;
        self.rules.clear();
    }

    /// Obeys a rule about some commands, in small letters.
    fn set_commands(&mut self, rule: &str, catalogue: &Catalogue) -> Result<(), &'static str> {
        let mut bits = self.commands;
        let target = obey(rule, &mut bits, catalogue)?;
        let is_of_it = |old: &String| {
            let behind = old[1..].strip_prefix(target);
            behind.is_some_and(|behind| behind.is_empty() || behind.starts_with('|'))
        };
        self.rules.retain(|old| !is_of_it(old));
        self.rules.push(rule.to_owned());
        let mut made = all_or_none(self.begins_with_all);
        self.rules.retain(|rule| {
            let before = made;
            obey(rule, &mut made, catalogue).is_ok() && made != before
        });
        debug_assert_eq!(made, bits);
        self.commands = made;
        Ok(())
    }

    /// The rules about commands.
    pub(crate) fn command_rules(&self) -> String {
        let mut text = String::from(if self.begins_with_all { "+@all" } else { "-@all" });
        for rule in &self.rules {
            let _ = write!(text, " {rule}");
        }
        text
    }

    /// The rules about keys.
    pub(crate) fn key_rules(&self) -> Vec<u8> {
        shown(&self.keys, b"~*", |pattern| match pattern.allows {
            Access { reads: true, writes: true } => b"~",
            Access { reads: true, .. } => b"%R~",
            _ => b"%W~",
        })
    }

    /// The rules about channels.
    pub(crate) fn channel_rules(&self) -> Vec<u8> {
        shown(&self.channels, b"&*", |_| b"&")
    }

    /// Words of Redis for what it is otherwise.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.needs_no_password.then_some("nopass"));
        flags
    }

    /// All rules, which make the same rights again.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = self.flags().into_iter().map(Into::into).collect();
        words.extend(self.passwords.iter().map(|password| format!("#{}", hex(password)).into_bytes()));
        words.extend(Some(self.key_rules()).filter(|rules| !rules.is_empty()));
        if !self.channels.has_all {
            words.push(b"resetchannels".to_vec());
        }
        words.extend(Some(self.channel_rules()).filter(|rules| !rules.is_empty()));
        words.push(self.command_rules().into_bytes());
        words.join(&b' ')
    }
}

fn all_or_none(allows: bool) -> [u64; WORDS] {
    [if allows { u64::MAX } else { 0 }; WORDS]
}

/// Sets or clears the bits that a rule is about; returns what it is about.
fn obey<'r>(rule: &'r str, bits: &mut [u64; WORDS], catalogue: &Catalogue) -> Result<&'r str, &'static str> {
    let (sign, target) = rule.split_at(1);
    let allows = sign == "+";
    let ids: Vec<usize> = match target.strip_prefix('@') {
        Some(category) => {
            let category = Categories::named(category.as_bytes()).ok_or(UNKNOWN)?;
            catalogue.within(category).collect()
        }
        None => vec![find(allows, target, catalogue)?],
    };
    for id in ids {
        // A command stands for its subcommands too.
        for id in std::iter::once(id).chain(catalogue.subcommands(id)) {
            let bit = 1 << (id % 64);
            let word = &mut bits[id / 64];
            *word = if allows { *word | bit } else { *word & !bit };
        }
    }
    Ok(target)
}

/// Patterns as rules, with a space between them.
fn shown(patterns: &Patterns, all: &[u8], before: impl Fn(&Pattern) -> &'static [u8]) -> Vec<u8> {
    if patterns.has_all {
        return all.to_vec();
    }
    let rules: Vec<_> =
        patterns.some.iter().map(|pattern| [before(pattern), &*pattern.glob].concat()).collect();
    rules.join(&b' ')
}

/// The command or subcommand of this name.
fn find(allows: bool, name: &str, catalogue: &Catalogue) -> Result<usize, &'static str> {
    if let Some(id) = catalogue.find(name) {
        return Ok(id);
    }
    match name.rsplit_once('|') {
        Some((command, word)) if allows => {
            let command = catalogue.find(command).ok_or(UNKNOWN)?;
            Err(if catalogue.entries[command].parent.is_some() {
                OF_SUBCOMMAND
            } else if word.is_empty() {
                SYNTAX
            } else if catalogue.subcommands(command).next().is_some() {
                UNKNOWN
            } else {
                FIRST_ARGUMENT
            })
        }
        _ => Err(UNKNOWN),
    }
}

/// Whether it can stand in a line of a file as a word.
pub(crate) fn is_word(text: &[u8]) -> bool {
    !text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}

/// A pattern without spaces, which would end it in a file.
fn plain(glob: &[u8]) -> Result<&[u8], &'static str> {
    if is_word(glob) { Ok(glob) } else { Err(SYNTAX) }
}

/// A pattern behind the letters that say what it allows.
fn qualified(text: &[u8]) -> Result<(&[u8], Access), &'static str> {
    let mut access = Access::default();
    for (index, letter) in text.iter().enumerate() {
        match letter {
            b'R' | b'r' if !access.reads => access.reads = true,
            b'W' | b'w' if !access.writes => access.writes = true,
            b'~' if index > 0 => return Ok((&text[index + 1..], access)),
            _ => break,
        }
    }
    Err(SYNTAX)
}

/// A hash as text.
pub(crate) fn hex(password: &Digest) -> String {
    password.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads a hash.
fn hash(text: &[u8]) -> Result<Digest, &'static str> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(BAD_HASH),
    };
    let mut password = Digest::default();
    if text.len() != 2 * password.len() {
        return Err(BAD_HASH);
    }
    for (byte, pair) in password.iter_mut().zip(text.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::Entry;
    use super::*;
    use fastrand::Rng;

    fn catalogue() -> Catalogue {
        let entry = |name: &str, categories: &[&str], parent| Entry {
            name: name.into(),
            categories: Categories::of(categories),
            parent,
        };
        Catalogue::new(vec![
            entry("get", &["read", "fast", "string"], None),
            entry("set", &["write", "slow", "string"], None),
            entry("client", &["slow"], None),
            entry("hget", &["read", "fast", "hash"], None),
            entry("client|id", &["slow", "connection"], Some(2)),
            entry("client|kill", &["slow", "connection", "admin", "dangerous"], Some(2)),
        ])
    }

    /// What is shown makes the same rights again, whichever rules were left out of it.
    #[test]
    fn the_rules_that_are_shown_make_the_same_rights() {
        const TARGETS: [&str; 14] = [
            "get",
            "set",
            "client",
            "hget",
            "client|id",
            "client|kill",
            "@read",
            "@write",
            "@slow",
            "@fast",
            "@connection",
            "@dangerous",
            "@string",
            "@all",
        ];
        let (catalogue, mut dice) = (catalogue(), Rng::with_seed(7));
        for _ in 0..20_000 {
            let (mut rights, mut all) = (Rights::default(), Vec::new());
            for _ in 0..dice.usize(..12) {
                let sign = if dice.bool() { '+' } else { '-' };
                let rule = format!("{sign}{}", TARGETS[dice.usize(..TARGETS.len())]);
                rights.apply(rule.as_bytes(), &catalogue).unwrap();
                all.push(rule);
            }
            let mut bits = all_or_none(false);
            for rule in &all {
                match &**rule {
                    "+@all" => bits = all_or_none(true),
                    "-@all" => bits = all_or_none(false),
                    rule => drop(obey(rule, &mut bits, &catalogue)),
                }
            }
            assert_eq!(rights.commands, bits, "{all:?}");
            let mut again = Rights::default();
            for rule in rights.command_rules().split(' ') {
                again.apply(rule.as_bytes(), &catalogue).unwrap();
            }
            assert_eq!(again, rights, "{all:?}");
            assert!(rights.rules.len() < TARGETS.len());
        }
    }

    #[test]
    fn a_rule_that_is_wrong_changes_nothing() {
        let catalogue = catalogue();
        let mut rights = Rights::all(None);
        for rule in [
            "what",
            "+what",
            "+@what",
            "-client|what",
            "~a",
            "&a",
            "%R~a",
            "#12",
            "!12",
            "<none",
            "(~a)",
            "+get|x",
            "+client|id|x",
            "+client|",
            "%",
        ] {
            assert!(rights.apply(rule.as_bytes(), &catalogue).is_err(), "{rule}");
            assert_eq!(rights, Rights::all(None), "{rule}");
        }
        assert!(rights.apply(b"+\xff", &catalogue).is_err() && rights.is_unlimited());
    }

    #[test]
    fn keys_are_allowed_in_the_ways_that_a_command_uses_them() {
        let mut rights = Rights::default();
        for rule in ["~a*", "%R~r*", "%W~w*", "%R~b*", "%W~b*"] {
            rights.apply(rule.as_bytes(), &catalogue()).unwrap();
        }
        let access = |reads, writes| Access { reads, writes };
        for (key, reads, writes, both) in [
            ("a1", true, true, true),
            ("r1", true, false, false),
            ("w1", false, true, false),
            ("b1", true, true, true),
            ("z", false, false, false),
        ] {
            let may = |access| rights.may_use(key.as_bytes(), access);
            assert_eq!(
                (may(access(true, false)), may(access(false, true)), may(access(true, true))),
                (reads, writes, both)
            );
            assert_eq!(may(Access::default()), key != "z");
        }
    }
}
