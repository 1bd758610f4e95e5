//! Passwords, kept and compared as SHA-256 sums, in a time that says nothing about them.

use ring::digest::SHA256;
use std::fmt;
use subtle::ConstantTimeEq as _;

/// The longest password.
const BYTES_MAX: usize = 512;

/// The SHA-256 sum of a password.
pub(crate) type Digest = [u8; 32];

pub(crate) fn digest(password: &[u8]) -> Digest {
    let mut sum = Digest::default();
    sum.copy_from_slice(ring::digest::digest(&SHA256, password).as_ref());
    sum
}

/// What clients have to say first.
pub struct Password(pub(crate) Digest);

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
            _ => Ok(Password(digest(password))),
        }
    }

    /// Whether it is this one.
    pub fn is(&self, said: &[u8]) -> bool {
        self.0.ct_eq(&digest(said)).into()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Password(…)")
    }
}
