//! The settings, put together from texts.

use super::*;
use clap::FromArgMatches as _;

/// What `MANX_OPTIONS` becomes in the process 9, if it was this, and a file and the flags say these
/// pairs.
fn together(environment: &str, pairs: &str) -> String {
    let text = from_environment(environment.as_bytes()).expect(environment) + pairs;
    Options::parse_all(with_pid(text, 9).as_bytes()).to_string()
}

/// What these flags say.
fn flags(arguments: &[&str]) -> String {
    let command = <Flags as clap::Args>::augment_args(Command::new("manx").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments).unwrap_or_else(|error| panic!("{error}"));
    Flags::from_arg_matches(&matches).expect("flags").0
}

#[test]
fn each_setting_has_a_flag_and_a_place_in_the_environment() {
    for setting in SETTINGS.iter().filter(|setting| !setting.key.is_empty()) {
        let value = match setting.form {
            Form::Word(words, _) | Form::Words(words, _) => Some(words[words.len() - 1].word),
            Form::Switch => None,
            Form::Number => Some("7"),
            Form::Microseconds => Some("7ms"),
            Form::Thousandths => Some("3.75"),
            Form::Cpus => Some("3"),
            Form::Cores => Some("big:0"),
            Form::Slos => Some("7=2ms@p99.9"),
            Form::Entries => Some("libfoo.so:spin"),
            Form::Stats => Some("live"),
        };
        let flag = setting.flag();
        let said = flags(&[&value.map_or(format!("--{flag}"), |value| format!("--{flag}={value}"))]);
        let read = Options::parse_all(said.as_bytes());
        assert_eq!(read.rejected, None, "{said}");
        let changed = SETTINGS.iter().filter(|setting| !(setting.is_default)(&read));
        assert_eq!(changed.map(|setting| setting.name).collect::<Vec<_>>(), [setting.name], "{said}");
        if !setting.is_launchers() {
            let passed_on = together("", &said);
            assert_eq!(together(&passed_on, ""), passed_on, "what an outer `manx run` says stays");
            assert!(passed_on.contains(&format!("{}=", setting.name)), "{passed_on}");
        }
    }
    assert_eq!(flags(&[]), "");
}

#[test]
fn the_nearest_place_wins() {
    let environment = "guard=always,spins=3,step_us=4,stats=stderr";
    let said = flags(&["--spins=7", "--sleep-max=2ms"]);
    assert_eq!(
        together(environment, &said),
        "guard=always,stats=stderr,spins=7,sleep_step_us=4,sleep_max_us=2000,pid=9"
    );
    assert_eq!(together("spins=3", ",spins=5,spins=10"), "guard=on,pid=9");
    assert_eq!(together("stats=stderr", &flags(&["--stats=off"])), "guard=on,pid=9");
}

#[test]
fn lists_are_replaced_as_a_whole() {
    let said = flags(&["--not=100% so", "--not", "sh,libstdc++.so", "--cpus-also=java,affinity"]);
    assert_eq!(
        together("only=a,not=b,cpus_also=configured", &said),
        "guard=on,cpus_also=affinity+java,only=a,not=100%25%20so+sh+libstdc%2B%2B.so,pid=9"
    );
    assert_eq!(together("only=a", ",only="), "guard=on,pid=9", "an empty list in a file takes away what was");
}

#[test]
fn an_outer_process_number_stays_with_its_file_only() {
    assert_eq!(together("pid=77", ""), "guard=on,pid=9");
    // Unless its file for statistics does, which two processes must not both write.
    assert_eq!(together("stats=/tmp/a,pid=77", ""), "guard=on,stats=/tmp/a,pid=77");
    assert_eq!(together("stats=/tmp/a,pid=77", &flags(&["--stats=/tmp/b"])), "guard=on,stats=/tmp/b,pid=9");
}

#[test]
fn bad_options_in_the_environment_are_refused() {
    for bad in ["gaurd=on", "quiet=on", "only=a++b", "cpus=0", "lock=fair", "spins=many", "stats=/tmp/%zz"] {
        let failure = from_environment(bad.as_bytes()).expect_err(bad);
        assert_eq!(failure.code, USAGE);
        assert!(failure.what.starts_with("MANX_OPTIONS: `"), "{failure}");
    }
}

#[test]
fn too_many_are_refused_together() {
    let many = |name: &str, value: &str, count| format!("{name}={}", vec![value; count].join("+"));
    let slos = many("slo", "1:9900", 65);
    assert_eq!(refusal(&slos).what, "--slo: 65 targets, of 64 that there may be");
    assert_eq!(refusal(&many("not", "libfoo.so", 300)).what, "--not: the list is too long");
    assert_eq!(Options::parse(slos.as_bytes()).rejected, Some(slos.as_bytes()));
}
