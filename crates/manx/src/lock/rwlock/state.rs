//! The states of the readers-writer lock as two functions: who may enter in a state, and who is to be woken in it. The
//! tables stand at the head of [`super`].

/// `word`: a writer holds the lock.
pub(super) const WRITER: u32 = 1;
/// `word`: readers may be asleep.
pub(super) const READERS_SLEEP: u32 = 1 << 1;
/// `word`: writers may be asleep.
pub(super) const WRITERS_SLEEP: u32 = 1 << 2;
/// `word`: there are overdue readers.
pub(super) const READER_GATE: u32 = 1 << 3;
/// `word`: there are overdue writers.
pub(super) const WRITER_GATE: u32 = 1 << 4;
/// `word`: overdue readers go before overdue writers.
pub(super) const READERS_TURN: u32 = 1 << 5;
/// `word`: one reader.
pub(super) const READER_ONE: u32 = 1 << 6;
/// `word`: all readers.
pub(super) const READERS: u32 = !(READER_ONE - 1);
/// `word`: from here on there are too many readers.
pub(super) const READERS_LIMIT: u32 = 1 << 31;

/// `side`: one more wake-up.
pub(super) const WAKE_ONE: u32 = 1 << 24;

/// The futex sets.
pub(super) mod set {
    pub const READERS: u32 = 1;
    pub const WRITERS: u32 = 1 << 1;
    pub const OVERDUE_READERS: u32 = 1 << 2;
    pub const OVERDUE_WRITERS: u32 = 1 << 3;
}

/// What distinguishes readers and writers that wait.
#[derive(Debug)]
pub(super) struct Kind {
    /// `word`: what must not be set for one to enter.
    pub(super) barred_by: u32,
    /// `word`: its flag, its gate, and what goes with the gate.
    pub(super) sleeps: u32,
    pub(super) gate: u32,
    pub(super) opens: u32,
    /// The sets of those asleep and those overdue.
    pub(super) asleep: u32,
    pub(super) overdue: u32,
    /// `side`: one overdue, and the bits in which they are counted.
    pub(super) overdue_one: u32,
    pub(super) overdue_all: u32,
    /// What entering adds to `word`, and for one that has slept sets in it.
    pub(super) enters: u32,
    pub(super) leaves_behind: u32,
}

pub(super) const READER: Kind = Kind {
    barred_by: WRITER | WRITER_GATE,
    sleeps: READERS_SLEEP,
    gate: READER_GATE,
    opens: READER_GATE | READERS_TURN,
    asleep: set::READERS,
    overdue: set::OVERDUE_READERS,
    overdue_one: 1,
    overdue_all: 0xfff,
    enters: READER_ONE,
    leaves_behind: 0,
};

pub(super) const WRITER_KIND: Kind = Kind {
    barred_by: WRITER | READERS | READER_GATE | WRITER_GATE,
    sleeps: WRITERS_SLEEP,
    gate: WRITER_GATE,
    opens: WRITER_GATE,
    asleep: set::WRITERS,
    overdue: set::OVERDUE_WRITERS,
    overdue_one: 1 << 12,
    overdue_all: 0xfff << 12,
    enters: WRITER,
    leaves_behind: WRITERS_SLEEP,
};

impl Kind {
    /// The second table of the module's text.
    pub(super) const fn may_enter(&self, word: u32, overdue: bool) -> bool {
        let barred_by = match (overdue, self.enters == WRITER) {
            (false, _) => self.barred_by,
            (true, true) => WRITER | READERS | READERS_TURN,
            (true, false) if word & READERS_TURN != 0 => WRITER,
            (true, false) => WRITER | WRITER_GATE,
        };
        word & barred_by == 0
    }
}

/// Whom to wake in a state of the lock.
pub(super) struct Next {
    pub(super) sets: u32,
    pub(super) count: u32,
    /// Flags that stand for those who are woken.
    pub(super) clears: u32,
    /// They are counted as overdue: if none of them sleeps, they are awake and see for themselves.
    pub(super) counted: bool,
}

impl Next {
    pub(super) const fn of(word: u32) -> Option<Next> {
        if word & WRITER != 0 {
            return None;
        }
        let readers_may = word & WRITER_GATE == 0;
        let (ordinary, clears) =
            if readers_may && word & READERS_SLEEP != 0 { (set::READERS, READERS_SLEEP) } else { (0, 0) };
        let overdue_may = word & READER_GATE != 0 && (readers_may || word & READERS_TURN != 0);
        if overdue_may {
            let sets = ordinary | set::OVERDUE_READERS;
            return Some(Next { sets, count: u32::MAX, clears, counted: true });
        }
        if ordinary != 0 {
            return Some(Next { sets: ordinary, count: u32::MAX, clears, counted: false });
        }
        if word & READERS != 0 {
            return None;
        }
        if word & WRITER_GATE != 0 {
            return Some(Next { sets: set::OVERDUE_WRITERS, count: 1, clears: 0, counted: true });
        }
        if word & WRITERS_SLEEP != 0 {
            return Some(Next { sets: set::WRITERS, count: 1, clears: WRITERS_SLEEP, counted: false });
        }
        None
    }
}
