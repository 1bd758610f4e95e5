//! The types of settings: how a value is written by users, and how it is then in `MANX_OPTIONS`.

use clap::builder::{
    OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser,
};
use command::cores::{parse_cores, parse_dilation};
use command::duration::parse_us;
use command::slo::parse_slo;
use preload_abi::cpus::Cpus;
use preload_abi::filter::{Entry, encode_entry};
use preload_abi::options::Setting;
use preload_abi::options::{Options, decode, encode};
use preload_abi::setting::Form;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// What the help says of a default, and the file has for it if it is no list or ratio.
pub(super) fn default(setting: &Setting) -> String {
    let mut text = String::new();
    (setting.write)(&Options::DEFAULT, &mut text).expect("writing to a String");
    match setting.form {
        Form::Microseconds => match text.strip_suffix("000") {
            Some(ms) => format!("{ms}ms"),
            None => format!("{text}us"),
        },
        _ => text,
    }
}

/// Reads what stands behind a flag.
pub(super) fn parser(form: Form) -> ValueParser {
    match form {
        Form::Word(words, _) | Form::Words(words, _) => {
            let words = words.iter().map(|word| PossibleValue::new(word.word).help(word.help));
            PossibleValuesParser::new(words).into()
        }
        Form::Stats => {
            let named = |word: OsString| match word.is_empty() {
                true => Err("name a file, or leave out the `=`"),
                false => Ok(destination(&word)),
            };
            OsStringValueParser::new().try_map(named).into()
        }
        form => ValueParser::new(move |text: &str| read(form, text)),
    }
}

/// Reads what a user wrote, and writes it as it stands in `MANX_OPTIONS`.
///
/// # Errors
/// What is wrong with it and what to write; empty if there is nothing to add to what is allowed.
pub(super) fn read(form: Form, text: &str) -> Result<String, String> {
    match form {
        Form::Word(words, _) | Form::Words(words, _) => {
            let known = words.iter().find(|word| word.word == text);
            known.map(|word| word.word.to_owned()).ok_or_else(String::new)
        }
        Form::Switch => match text {
            "true" => Ok("on".to_owned()),
            "false" => Ok("off".to_owned()),
            _ => Err(String::new()),
        },
        Form::Number => match text.parse::<u32>() {
            Ok(number) => Ok(number.to_string()),
            Err(_) => Err(format!("write a whole number from 0 to {}", u32::MAX)),
        },
        Form::Microseconds => parse_us(text).map(|us| us.to_string()),
        Form::Thousandths => parse_dilation(text).map(|thousandths| thousandths.to_string()),
        Form::Cpus => match Cpus::from_word(text.as_bytes()) {
            Some(cpus) => Ok(cpus.to_string()),
            None => Err(format!("write `auto`, `keep`, or a number from 1 to {}", Cpus::MAX)),
        },
        Form::Cores => parse_cores(text).map(|cores| encoded(cores.as_bytes())),
        Form::Slos => parse_slo(text).map(|slo| slo.to_string()),
        Form::Entries => {
            let mut entry = String::new();
            encode_entry(text, &mut entry).expect("writing to a String");
            match Entry::parse(entry.as_bytes()) {
                Ok(_) => Ok(entry),
                Err(fault) => Err(fault.to_string()),
            }
        }
        Form::Stats if text.is_empty() => Err(String::new()),
        Form::Stats => Ok(destination(text.as_ref())),
    }
}

/// Where statistics go: `off`, `stderr`, `live`, or a file, by its absolute path.
fn destination(word: &OsStr) -> String {
    match word.as_bytes() {
        b"off" | b"stderr" | b"live" => word.to_string_lossy().into_owned(),
        _ => encoded(absolute(word.into()).as_os_str().as_bytes()),
    }
}

/// The path as it stands for processes that work in other folders.
pub(super) fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Bytes as a value of `MANX_OPTIONS`.
pub(super) fn encoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    encode(bytes, &mut text).expect("writing to a String");
    text
}

/// What a value of `MANX_OPTIONS` stands for, if it is well-formed.
pub(super) fn decoded(value: &[u8]) -> Option<OsString> {
    let mut buffer = vec![0; value.len()];
    Some(OsString::from_vec(decode(value, &mut buffer)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read_to_a_thousandth() {
        assert_eq!(read(Form::Thousandths, "3.75").as_deref(), Ok("3750"));
        assert_eq!(read(Form::Thousandths, "1").as_deref(), Ok("1000"));
        for bad in ["0.9", "1001", "x", "", "NaN", "inf", "-2"] {
            assert!(read(Form::Thousandths, bad).is_err_and(|help| help.contains("1 to 1000")), "{bad}");
        }
    }

    #[test]
    fn counts_of_cpus_are_words_or_numbers() {
        assert_eq!(read(Form::Cpus, "2").as_deref(), Ok("2"));
        for bad in ["0", "two", "", "-1", "1.5", "8193"] {
            assert!(read(Form::Cpus, bad).is_err_and(|help| help.contains("`keep`")), "{bad}");
        }
    }

    #[test]
    fn words_and_files_are_told_apart() {
        assert_eq!(destination("off".as_ref()), "off");
        assert_eq!(destination("stderr".as_ref()), "stderr");
        let here = std::env::current_dir().expect("a current folder");
        assert_eq!(destination("./off".as_ref()), encoded(here.join("off").as_os_str().as_bytes()));
    }

    #[test]
    fn names_are_written_as_the_library_reads_them() {
        assert_eq!(read(Form::Entries, "libstdc++.so.6:0x1F").as_deref(), Ok("libstdc%2B%2B.so.6:0x1F"));
        assert_eq!(read(Form::Entries, "100%, so").as_deref(), Ok("100%25%2C%20so"));
    }
}
