//! Enums whose values each have a number, under which they are stored, a word, by which options
//! and statistics name them, and a line of help: their documentation.

/// A value of such an enum, as users read of it.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word itself.
    pub word: &'static str,
    /// The line of help.
    pub help: &'static str,
}

/// Such an enum that is a type of settings.
pub trait Choice: Copy + 'static {
    /// Every value's word and help.
    const WORDS: &'static [Word];
    /// What a wrong word is not.
    const NOUN: &'static str;

    /// The value that a word names.
    fn chosen(word: &[u8]) -> Option<Self>;

    /// The word for it.
    fn name(self) -> &'static str;
}

/// Defines such enums: `Value = number => "word"`. An enum with `is "a noun"` is a type of
/// settings, and a wrong word is no such thing.
macro_rules! words {
    ($($(#[$attribute:meta])* pub enum $name:ident $(is $noun:literal)? {
        $($(#[doc = $help:literal])+ $value:ident = $number:literal => $word:literal,)+
    })+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name {
            $($(#[doc = $help])+ $value = $number,)+
        }

        impl $name {
            /// Every value, in the order of its number.
            pub const ALL: [$name; [$($number),+].len()] = [$($name::$value),+];

            /// Every value's word and help, in the same order.
            pub const WORDS: &'static [$crate::words::Word] =
                &[$($crate::words::Word { word: $word, help: concat!($($help),+).trim_ascii() }),+];

            /// The word for it.
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)+
                }
            }

            /// The value that `word` names.
            pub fn from_word(word: &[u8]) -> Option<$name> {
                $name::ALL.into_iter().find(|value| value.word().as_bytes() == word)
            }

            /// The value as stored, or `None` for a number that no version wrote.
            #[inline]
            pub const fn from_number(number: u32) -> Option<$name> {
                match number {
                    $($number => Some($name::$value),)+
                    _ => None,
                }
            }
        }

        $(impl $crate::words::Choice for $name {
            const WORDS: &'static [$crate::words::Word] = $name::WORDS;
            const NOUN: &'static str = $noun;

            fn chosen(word: &[u8]) -> Option<$name> {
                $name::from_word(word)
            }

            fn name(self) -> &'static str {
                self.word()
            }
        })?
    )+};
}
pub(crate) use words;
