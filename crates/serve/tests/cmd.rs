//! Help and errors, word for word: the files in `cmd/`.

#[test]
fn help_and_errors() {
    trycmd::TestCases::new().env("COLUMNS", "100").case("tests/cmd/*.trycmd");
}
