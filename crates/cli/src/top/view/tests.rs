//! Screens, as they are: `tests/screens` has each as text. `MANX_BLESS=1` writes them anew.

use super::*;
use crate::processes::row::{Host, Inside, Lock, Loop, Manx, Row, Snapshot, Thread};
use crate::top::columns::Column;
use crate::top::input::Command;
use crate::top::state::Effect;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use std::fs;
use std::path::Path;
use std::time::Duration;

const SIZES: [(u16, u16); 3] = [(80, 24), (40, 10), (200, 50)];

fn snapshot() -> Snapshot {
    let server = Row {
        pid: 4_194_301,
        name: "database-server".into(),
        command: "/usr/sbin/database-server --threads=64 --data=/var/lib/database".into(),
        manx: Manx::Counts,
        threads: 66,
        threads_read: 66,
        cpus: Some(1.953),
        delay: Some(12.34),
        throttled: Some(0.4),
        lost: Some(0.215),
        sites: Some(18),
        locks: Some(7),
        lock_waits_per_s: Some(12_345.6),
        p50_ns: Some(1_250_000),
        p99_ns: Some(48_300_000),
        max_ns: Some(203_000_000),
    };
    let bare = Row {
        pid: 77,
        name: "日本語の名前".into(),
        command: "python3 train.py".into(),
        manx: Manx::On,
        threads: 5_000,
        threads_read: 4_096,
        cpus: Some(0.02),
        delay: Some(0.31),
        ..Row::default()
    };
    let quiet = |pid| Row {
        pid,
        name: format!("quiet-{pid}"),
        command: "sleep 1000".into(),
        threads: 1,
        threads_read: 1,
        cpus: Some(0.0),
        delay: Some(0.0),
        ..Row::default()
    };
    let hidden = Row { pid: 1, name: "init".into(), manx: Manx::Unknown, threads: 1, ..Row::default() };
    Snapshot {
        unix_ms: 0,
        span_ns: 1_000_000_000,
        host: Host {
            cpus: Some(2),
            busy_cpus: Some(1.98),
            stolen_cpus: Some(0.04),
            stalled: Some(0.937),
            runnable: Some(15),
        },
        processes: [server, bare, hidden].into_iter().chain((100..130).map(quiet)).collect(),
        inside: None,
    }
}

fn inside() -> Inside {
    let thread = |index: u32| Thread {
        tid: 4_194_301 - index,
        name: format!("worker-{index}"),
        cpus: Some(0.9 / f64::from(index + 1)),
        delay: Some(0.99),
        slices_per_s: Some(1234.0),
    };
    let repaired = |index: u32| Loop {
        module: "libopenblas.so.0".into(),
        place: format!("blas_thread_server+{:#x}", 0x120 + index),
        waits_per_s: 2_500.0,
        waiting: 0.4,
        yields_per_s: 381_000.0,
        sleeps_per_s: 12.0,
        longest_ns: 46_000_000,
    };
    let lock = |index: u64| Lock {
        address: 0x55f5_fab8_40e0 + index,
        module: "database-server".into(),
        place: format!("write_page(unsigned long, page*)+{index:#x}"),
        waits_per_s: 1_200.0,
        waiting: 3.5,
        p50_ns: Some(447_000),
        p99_ns: Some(2_100_000),
        max_ns: Some(8_500_000),
        starving_per_s: 0.5,
    };
    Inside {
        pid: 4_194_301,
        group: Some("the group /system.slice/database.service".into()),
        threads: (0..66).map(thread).collect(),
        loops: (0..9).map(repaired).collect(),
        locks: (0..7).map(lock).collect(),
        trials: ["spin kept (0.52 to 1.93 CPUs)", "yield dropped (1.90 to 0.20 CPUs)"]
            .map(str::to_owned)
            .into(),
    }
}

fn list() -> State {
    let mut state = State::new(Column::Delay, false, String::new(), Duration::from_secs(1));
    state.update(snapshot());
    state
}

fn process() -> State {
    let mut state = list();
    state.apply(Command::Open);
    state.update(Snapshot { inside: Some(inside()), ..snapshot() });
    state
}

fn drawn(state: &mut State, (width, height): (u16, u16), colours: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen in memory");
    let draws = terminal.draw(|frame| draw(state, frame.buffer_mut(), colours));
    draws.expect("memory does not fail").buffer.clone()
}

/// The text of a screen, without what is blank at the ends of lines.
fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line += symbol;
            // The cell behind a wide character is hidden by it.
            x += crate::top::paper::width(symbol).max(1) as u16;
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Compares a screen with the one in the folder.
fn is_as_before(name: &str, screen: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/screens/{name}.txt"));
    if std::env::var_os("MANX_BLESS").is_some() {
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(&file, screen).expect("written");
    }
    let before = fs::read_to_string(&file).unwrap_or_default();
    assert!(before == screen, "{name} has changed; MANX_BLESS=1 accepts it:\n{screen}\nbefore:\n{before}");
}

#[test]
fn each_page_at_each_size_is_as_before() {
    for size in SIZES {
        let mut filtered = list();
        filtered.apply(Command::Filter);
        "QUIET-12"
            .chars()
            .for_each(|letter| assert_eq!(filtered.apply(Command::Letter(letter)), Effect::Draw));
        let mut low = list();
        low.apply(Command::Last);
        low.apply(Command::Reverse);
        let mut locks = process();
        locks.apply(Command::Part(-1));
        locks.apply(Command::Last);
        let mut help = list();
        help.apply(Command::Help);
        let mut none = list();
        none.apply(Command::All);
        none.update(Snapshot { processes: vec![Row { pid: 5, ..Row::default() }], ..snapshot() });
        let mut ended = process();
        ended.update(Snapshot { processes: vec![], ..snapshot() });
        for (name, mut state) in [
            ("list", list()),
            ("list-filtered", filtered),
            ("list-last", low),
            ("list-none", none),
            ("process", process()),
            ("process-locks", locks),
            ("process-ended", ended),
            ("help", help),
        ] {
            let screen = text(&drawn(&mut state, size, true));
            is_as_before(&format!("{name}-{}x{}", size.0, size.1), &screen);
        }
    }
}

#[test]
fn without_colours_the_text_is_the_same_and_no_cell_has_one() {
    for mut state in [list(), process()] {
        let (with, without) = (drawn(&mut state, (80, 24), true), drawn(&mut state, (80, 24), false));
        assert_eq!(text(&with), text(&without));
        let plain = without.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset);
        assert!(plain, "a colour");
    }
    let colours = |buffer: &Buffer| buffer.content.iter().any(|cell| cell.fg != Color::Reset);
    assert!(colours(&drawn(&mut list(), (80, 24), true)), "a process that waits is red");
}

#[test]
fn what_attributes_show_is_in_the_text_too() {
    let buffer = drawn(&mut list(), (80, 24), false);
    let screen = text(&buffer);
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[3].starts_with('>') && lines[1].contains("sorted by DELAY"), "{screen}");
    assert!(buffer[(5, 3)].modifier.contains(Modifier::REVERSED));
    assert!(!buffer[(5, 4)].modifier.contains(Modifier::REVERSED));
}

#[test]
fn any_size_can_be_drawn() {
    for mut state in [list(), process()] {
        for width in (0..30).chain([79, 300]) {
            for height in (0..12).chain([24, 90]) {
                drawn(&mut state, (width, height), true);
            }
        }
    }
}
