//! Keys, and rows that change under the selected one.

use super::*;
use crate::processes::row::{Manx, Thread};
use proptest::prelude::*;

fn row(pid: u32, delay: f64) -> Row {
    Row { pid, name: format!("p{pid}"), delay: Some(delay), ..Row::default() }
}

fn snapshot(processes: Vec<Row>) -> Snapshot {
    Snapshot { processes, ..Snapshot::default() }
}

fn state(processes: Vec<Row>) -> State {
    let mut state = State::new(Column::Delay, false, String::new(), Duration::from_secs(1));
    state.update(snapshot(processes));
    state
}

fn pids(state: &State) -> Vec<u32> {
    state.rows().map(|row| row.pid).collect()
}

fn selected(state: &State) -> Option<u32> {
    state.rows().nth(state.selected()).map(|row| row.pid)
}

#[test]
fn a_key_sorts_and_another_turns_the_order_round() {
    let mut state = state(vec![row(1, 0.1), row(2, 0.3), row(3, 0.2)]);
    assert_eq!(pids(&state), [2, 3, 1]);
    state.apply(Command::Reverse);
    assert_eq!(pids(&state), [1, 3, 2]);
    state.apply(Command::Reverse);
    while state.sort != Column::Pid {
        state.apply(Command::Sort(-1));
    }
    assert_eq!(pids(&state), [1, 2, 3]);
}

#[test]
fn the_first_row_is_selected_until_a_key_chooses_one() {
    let mut state = state(vec![row(1, 0.1), row(2, 0.3)]);
    assert_eq!(selected(&state), Some(2));
    state.update(snapshot(vec![row(1, 0.9), row(2, 0.3)]));
    assert_eq!(selected(&state), Some(1));
    state.apply(Command::Move(1));
    assert_eq!(selected(&state), Some(2));
    state.update(snapshot(vec![row(1, 0.1), row(2, 0.3)]));
    assert_eq!((selected(&state), state.selected()), (Some(2), 0));
}

#[test]
fn a_filter_is_written_kept_and_removed() {
    let mut state = state(vec![row(1, 0.1), row(2, 0.3), row(12, 0.2)]);
    state.apply(Command::Filter);
    assert!(state.writing);
    for letter in "P1x".chars() {
        state.apply(Command::Letter(letter));
    }
    assert!(pids(&state).is_empty());
    state.apply(Command::Erase);
    state.apply(Command::Accept);
    assert_eq!((pids(&state), state.writing), (vec![12, 1], false), "capitals do not matter");
    state.apply(Command::Back);
    assert_eq!(pids(&state).len(), 3);
}

#[test]
fn only_processes_under_manx_are_shown_if_asked_for() {
    let under_manx = Row { manx: Manx::On, ..row(2, 0.0) };
    let mut state = state(vec![row(1, 0.1), under_manx]);
    state.apply(Command::All);
    assert_eq!(pids(&state), [2]);
    state.apply(Command::All);
    assert_eq!(pids(&state), [1, 2]);
}

#[test]
fn a_process_is_opened_scrolled_and_left() {
    let mut state = state(vec![row(1, 0.1), row(2, 0.3)]);
    state.apply(Command::Last);
    assert_eq!((state.apply(Command::Open), state.open()), (Effect::Look, Some(1)));
    let inside = Inside { pid: 1, threads: vec![Thread::default(); 30], ..Inside::default() };
    state.update(Snapshot { inside: Some(inside), ..snapshot(vec![row(1, 0.1), row(2, 0.9)]) });
    assert_eq!(state.lengths(), [30, 0, 0]);
    state.apply(Command::Page(1));
    state.apply(Command::Move(1));
    assert_eq!(state.scrolled, [11, 0, 0]);
    state.apply(Command::Last);
    assert_eq!(state.scrolled, [29, 0, 0]);
    state.apply(Command::Part(-1));
    state.apply(Command::Move(1));
    assert_eq!((state.part, state.scrolled), (2, [29, 0, 0]), "an empty list does not scroll");
    state.update(snapshot(vec![row(2, 0.9)]));
    assert!(state.inside().is_none(), "it has ended");
    assert_eq!(state.apply(Command::Back), Effect::Draw);
    assert_eq!((state.page, selected(&state)), (Page::List, Some(2)));
}

#[test]
fn an_inside_of_another_process_is_not_shown() {
    let mut state = state(vec![row(1, 0.1)]);
    state.apply(Command::Open);
    let other = Inside { pid: 2, ..Inside::default() };
    state.update(Snapshot { inside: Some(other), ..snapshot(vec![row(1, 0.1)]) });
    assert!(matches!(state.inside(), Some((_, None))));
}

#[test]
fn the_interval_changes_in_steps_and_stops_at_the_ends() {
    let mut state = state(vec![]);
    state.interval = Duration::from_millis(700);
    state.apply(Command::Slower(true));
    assert_eq!(state.interval, Duration::from_secs(1));
    for _ in 0..20 {
        state.apply(Command::Slower(false));
    }
    assert_eq!(state.interval, Duration::from_millis(INTERVALS[0]));
    for _ in 0..20 {
        state.apply(Command::Slower(true));
    }
    assert_eq!(state.interval, Duration::from_secs(60));
}

#[test]
fn a_pause_ends_with_a_look() {
    let mut state = state(vec![]);
    assert_eq!((state.apply(Command::Pause), state.paused), (Effect::Draw, true));
    assert_eq!((state.apply(Command::Pause), state.paused), (Effect::Look, false));
}

#[test]
fn the_help_takes_the_keys_of_what_is_below() {
    let mut state = state(vec![row(1, 0.1)]);
    state.apply(Command::Help);
    assert_eq!((state.apply(Command::Open), state.page, state.help), (Effect::Draw, Page::List, true));
    assert_eq!(state.apply(Command::Quit), Effect::Quit);
    state.apply(Command::Back);
    assert!(!state.help);
}

fn commands() -> impl Strategy<Value = Command> {
    prop_oneof![
        (-3..4_isize).prop_map(Command::Move),
        (-2..3_isize).prop_map(Command::Page),
        Just(Command::First),
        Just(Command::Last),
        (-1..2_isize).prop_map(Command::Sort),
        Just(Command::Reverse),
        Just(Command::All),
        Just(Command::Filter),
        (0..10_u32).prop_map(|digit| Command::Letter(char::from_digit(digit, 10).expect("a digit"))),
        Just(Command::Erase),
        Just(Command::Clear),
        Just(Command::Open),
        Just(Command::Back),
        Just(Command::Help),
    ]
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let rows = proptest::collection::btree_map(1..30_u32, (0.0..1.0_f64, any::<bool>()), 0..20);
    rows.prop_map(|rows| {
        let of =
            |(pid, (delay, manx))| Row { manx: if manx { Manx::On } else { Manx::No }, ..row(pid, delay) };
        rows.into_iter().map(of).collect()
    })
}

proptest! {
    #[test]
    fn the_selected_process_stays_selected_while_it_is_there(
        first in rows().prop_filter("a key selects a row that is there", |rows| !rows.is_empty()),
        down in 1..20_isize,
        next in proptest::collection::vec(rows(), 1..5),
    ) {
        let mut state = state(first);
        state.apply(Command::Move(down));
        let mut last = selected(&state).expect("a row");
        for processes in next {
            let at = state.selected();
            state.update(snapshot(processes.clone()));
            if processes.iter().any(|row| row.pid == last) {
                prop_assert_eq!(selected(&state), Some(last));
            } else {
                prop_assert_eq!(state.selected(), at.min(processes.len().saturating_sub(1)));
            }
            // With no rows it is still remembered.
            last = selected(&state).unwrap_or(last);
        }
    }

    #[test]
    fn any_keys_leave_the_selected_row_on_the_screen(
        first in rows(),
        keys in proptest::collection::vec(commands(), 0..30),
        next in rows(),
        height in 0..12_usize,
    ) {
        let mut state = state(first);
        for key in keys {
            state.apply(key);
            let (top, rows) = (state.fit(height), state.rows().len());
            prop_assert!(rows == 0 || (top..top + height.max(1)).contains(&state.selected()));
            prop_assert!(state.selected() < rows.max(1));
        }
        state.update(snapshot(next));
        let top = state.fit(height);
        prop_assert!((top..top + height.max(1)).contains(&state.selected()));
    }
}
