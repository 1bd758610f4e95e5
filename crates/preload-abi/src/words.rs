//! Enums whose values each have a number, under which they are stored, and a word, by which options
//! and statistics name them.

/// Defines such enums: `Value = number => "word"`.
macro_rules! words {
    ($($(#[$attribute:meta])* pub enum $name:ident {
        $($(#[$of_value:meta])* $value:ident = $number:literal => $word:literal,)+
    })+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$of_value])* $value = $number,)+
        }

        impl $name {
            /// Every value, in the order of its number.
            pub const ALL: [$name; [$($number),+].len()] = [$($name::$value),+];

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
    )+};
}
pub(crate) use words;
