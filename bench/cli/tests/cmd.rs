//! Help and errors, word for word: the files in `cmd/`.

mod support;

#[test]
fn help_and_errors() {
    // `manx profile` lets `manx run` look at the program.
    support::build();
    trycmd::TestCases::new().env("COLUMNS", "100").case("tests/cmd/*.trycmd");
}
