//! The settings, put together from texts.

use super::*;

fn from(text: &str) -> Settings {
    Settings::from_environment(text.as_bytes()).expect(text)
}

#[test]
fn a_layer_changes_only_what_it_says() {
    let mut settings = from("guard=always,spins=3,yields=4,stats=stderr");
    settings.overlay(Layer { spins: Some(7), sleep_max_us: Some(2000), ..Layer::default() });
    assert_eq!(settings.to_options(9), "guard=always,stats=stderr,pid=9,spins=7,yields=4,ceiling_us=2000");
    settings.overlay(Layer { stats: Some(Destination::Nowhere), ..Layer::default() });
    assert_eq!(settings.to_options(0), "guard=always,spins=7,yields=4,ceiling_us=2000");
}

#[test]
fn options_survive_being_read_and_written() {
    for text in [
        "guard=on",
        "guard=always,short=never,stats=/tmp/a%2Cb%20c,verbose=1",
        "guard=off,step_us=5",
        "guard=on,lock=fifo",
        "guard=on,lock=glibc,dilate=3750",
        "guard=on,short=always",
        "guard=on,lock=asl,slo=2000000:9900+7:500000:9990",
        "guard=on,cpus=3,cpus_also=affinity+java",
        "guard=on,cpus=keep",
        "guard=on,only=mongod+libstdc%2B%2B.so*,not=libfoo.so:spin+libfoo.so:0x1f",
    ] {
        assert_eq!(from(text).to_options(0), text);
    }
}

#[test]
fn filters_are_written_as_the_library_reads_them() {
    assert_eq!(parse_entry("libstdc++.so.6:0x1F").as_deref(), Ok("libstdc%2B%2B.so.6:0x1F"));
    let mut settings = from("only=a,not=b");
    let entries = |text: &str| Some(vec![parse_entry(text).expect(text), "sh".to_owned()]);
    settings.overlay(Layer { not: entries("100%, so"), ..Layer::default() });
    assert_eq!(settings.to_options(0), "guard=on,only=a,not=100%25%2C%20so+sh");
    assert!(!settings.filters().executable(&[b"a", b"100%, so"]) && settings.filters().executable(&[b"a"]));
    settings.overlay(Layer { only: Some(Vec::new()), ..Layer::default() });
    assert!(
        settings.filters().executable(&[b"c"]),
        "an empty list in a file takes away what was said before"
    );
}

#[test]
fn an_outer_process_number_stays_with_its_file_only() {
    assert_eq!(from("pid=77").to_options(5), "guard=on,pid=5");
    // Unless its file for statistics does, which two processes must not both write.
    let mut nested = from("stats=/tmp/a,pid=77");
    assert_eq!(nested.to_options(5), "guard=on,stats=/tmp/a,pid=77");
    nested.overlay(Layer { stats: Some(Destination::File("/tmp/b".into())), ..Layer::default() });
    assert_eq!(nested.to_options(5), "guard=on,stats=/tmp/b,pid=5");
}

#[test]
fn bad_options_in_the_environment_are_refused() {
    for bad in [
        "gaurd=on",
        "only=a++b",
        "not=/bin/true",
        "cpus=0",
        "cpus_also=all",
        "lock=fair",
        "spins=many",
        "stats=/tmp/%zz",
    ] {
        let failure = Settings::from_environment(bad.as_bytes()).expect_err(bad);
        assert_eq!(failure.code, USAGE);
        assert!(failure.what.starts_with("MANX_OPTIONS: `"), "{failure}");
    }
}

#[test]
fn ratios_are_read_to_a_thousandth() {
    assert_eq!(parse_dilation("3.75"), Ok(3750));
    assert_eq!(parse_dilation("1"), Ok(1000));
    for bad in ["0.9", "1001", "x", "", "NaN", "inf", "-2"] {
        assert!(parse_dilation(bad).is_err_and(|help| help.contains("1 to 1000")), "{bad}");
    }
}

#[test]
fn words_and_files_are_told_apart() {
    assert_eq!(Destination::from_word("off".as_ref()), Destination::Nowhere);
    assert_eq!(Destination::from_word("stderr".as_ref()), Destination::Stderr);
    let here = std::env::current_dir().expect("a current folder");
    assert_eq!(Destination::from_word("./off".as_ref()), Destination::File(here.join("off")));
}

#[test]
fn counts_of_cpus_come_from_the_nearest_place() {
    let mut settings = from("cpus=3,cpus_also=java");
    assert_eq!((settings.cpus(), settings.cpus_also().has(Place::Java)), (Cpus::Count(3), true));
    settings.overlay(Layer { cpus: Some(Cpus::Auto), ..Layer::default() });
    assert_eq!(settings.to_options(0), "guard=on,cpus_also=java");
    assert_eq!(parse_cpus("2"), Ok(Cpus::Count(2)));
    for bad in ["0", "two", "", "-1", "1.5", "8193"] {
        assert!(parse_cpus(bad).is_err_and(|help| help.contains("`keep`")), "{bad}");
    }
}
