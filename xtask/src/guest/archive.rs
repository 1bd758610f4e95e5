//! The archive from which a kernel fills its first file system: cpio's "new" format.
//!
//! Each entry is a header of 110 bytes (a magic number and 13 numbers of 8 hexadecimal digits), a
//! name with a zero behind it, and the content; name and content each end at a multiple of four.
//! The last entry is called `TRAILER!!!`.

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive that grows.
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    folders: Vec<String>,
}

impl Archive {
    /// An empty one.
    pub fn new() -> Archive {
        Archive { bytes: Vec::new(), entries: 0, folders: Vec::new() }
    }

    /// A folder, and those above it that are not there yet.
    pub fn folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        if path.is_empty() || self.folders.iter().any(|it| it == path) {
            return;
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.folders.push(path.into());
        self.entry(path, FOLDER, &[]);
    }

    /// A program, or anything else that all may read and execute.
    pub fn program(&mut self, path: &str, content: &[u8]) {
        self.above(path);
        self.entry(path.trim_matches('/'), PROGRAM, content);
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.above(path);
        self.entry(path.trim_matches('/'), LINK, target.as_bytes());
    }

    /// The whole archive.
    pub fn end(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn above(&mut self, path: &str) {
        if let Some((above, _)) = path.trim_matches('/').rsplit_once('/') {
            self.folder(above);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let (size, name_size) = (content.len() as u32, name.len() as u32 + 1);
        let links = if mode == FOLDER { 2 } else { 1 };
        let numbers = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        let header: String = numbers.iter().map(|number| format!("{number:08X}")).collect();
        self.bytes.extend(b"070701");
        self.bytes.extend(header.bytes());
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_names_and_contents_are_where_the_kernel_looks() {
        let mut archive = Archive::new();
        archive.program("/bin/sh", b"12345");
        archive.link("/bin/ls", "sh");
        archive.folder("/bin");
        let bytes = archive.end();
        let mut names = Vec::new();
        let mut at = 0;
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let number = |index: usize| {
                let begin = at + 6 + index * 8;
                let text = std::str::from_utf8(&bytes[begin..begin + 8]).expect("digits");
                usize::from_str_radix(text, 16).expect("hexadecimal")
            };
            let (mode, size, name_size) = (number(1), number(6), number(11));
            let name = String::from_utf8(bytes[at + 110..at + 110 + name_size - 1].to_vec()).expect("a name");
            let begin = (at + 110 + name_size).next_multiple_of(4);
            let content = String::from_utf8(bytes[begin..begin + size].to_vec()).expect("text");
            at = (begin + size).next_multiple_of(4);
            if name == "TRAILER!!!" {
                break;
            }
            names.push((name, mode, content));
        }
        let expected = [("bin", FOLDER, ""), ("bin/sh", PROGRAM, "12345"), ("bin/ls", LINK, "sh")];
        assert_eq!(names, expected.map(|(name, mode, content)| (name.into(), mode as usize, content.into())));
        assert_eq!(at, bytes.len());
    }
}
