//! The password, compared in a time that says nothing about it.
//!
//! Both are padded to the same length, so not even the length decides how long it takes.

use std::fmt;
use subtle::ConstantTimeEq as _;

/// The longest password.
const BYTES_MAX: usize = 512;

/// What clients have to say first.
pub struct Password(Box<Padded>);

struct Padded {
    bytes: [u8; BYTES_MAX],
    length: u64,
}

impl Padded {
    fn new(password: &[u8]) -> Padded {
        let mut bytes = [0; BYTES_MAX];
        let kept = password.len().min(BYTES_MAX);
        bytes[..kept].copy_from_slice(&password[..kept]);
        Padded { bytes, length: password.len() as u64 }
    }
}

impl Password {
    /// This one.
    ///
    /// ```
    /// use server::Password;
    ///
    /// let password = Password::new(b"secret").unwrap();
    /// assert!(password.is(b"secret") && !password.is(b"secrex") && !password.is(b"secret\0"));
    /// assert!(Password::new(b"").is_err());
    /// ```
    ///
    /// # Errors
    /// It is empty, or longer than 512 bytes.
    pub fn new(password: &[u8]) -> Result<Password, String> {
        match password.len() {
            0 => Err("the password is empty".into()),
            length if length > BYTES_MAX => {
                Err(format!("the password has {length} bytes: {BYTES_MAX} are the most"))
            }
            _ => Ok(Password(Box::new(Padded::new(password)))),
        }
    }

    /// Whether it is this one.
    pub fn is(&self, said: &[u8]) -> bool {
        let said = Padded::new(said);
        bool::from(self.0.bytes.ct_eq(&said.bytes) & self.0.length.ct_eq(&said.length))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Password(…)")
    }
}
