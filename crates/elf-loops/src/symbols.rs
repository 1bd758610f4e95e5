//! The functions that a file names, and which of them holds an address.

use object::{Object as _, ObjectSymbol as _, SymbolKind};
use spinloop::is_polling;

/// How many functions may start between a function's start and an address in it: aliases and inner
/// labels.
const NESTED_MAX: usize = 16;

/// A function that a file names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Its first address.
    pub start: u64,
    /// How many bytes it has.
    pub size: u64,
    /// Whether other modules see it, and so the library.
    pub exported: bool,
    /// Its name, as the linker writes it.
    pub name: String,
}

/// The functions that a file names.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// By address.
    functions: Vec<Function>,
}

impl Symbols {
    /// Reads both tables of symbols of a file; what is no ELF file names none.
    ///
    /// ```
    /// assert_eq!(elf_loops::Symbols::read(b"no ELF file").name(0x1000), "0x1000");
    /// ```
    pub fn read(data: &[u8]) -> Symbols {
        let mut functions = Vec::new();
        if let Ok(file) = object::File::parse(data) {
            let exported = file.dynamic_symbols().map(|symbol| (symbol, true));
            for (symbol, exported) in file.symbols().map(|symbol| (symbol, false)).chain(exported) {
                if symbol.kind() == SymbolKind::Text
                    && symbol.is_definition()
                    && let Ok(name) = symbol.name()
                {
                    let (start, size, name) = (symbol.address(), symbol.size(), name.to_owned());
                    functions.push(Function { start, size, exported, name });
                }
            }
        }
        functions.sort();
        Symbols { functions }
    }

    /// Where the file's own functions by which threads poll begin: those whose names say so, and
    /// those that `is_named` accepts.
    pub fn polling(&self, is_named: impl Fn(&str) -> bool) -> impl Iterator<Item = u64> {
        let polls =
            move |it: &&Function| it.exported && (is_polling(it.name.as_bytes()) || is_named(&it.name));
        self.functions.iter().filter(polls).map(|function| function.start)
    }

    /// The functions that hold `address`, the last that starts before it first.
    pub fn around(&self, address: u64) -> impl Iterator<Item = &Function> {
        let next = self.functions.partition_point(|function| function.start <= address);
        let near = self.functions[..next].iter().rev().take(NESTED_MAX);
        near.filter(move |function| address - function.start < function.size)
    }

    /// The function that holds `address` and the offset in it, with the address itself unless the
    /// library knows the function by its name, too; or the address.
    pub fn name(&self, address: u64) -> String {
        let exported = self.around(address).find(|function| function.exported);
        match exported.or_else(|| self.around(address).next()) {
            Some(Function { start, exported: true, name, .. }) => format!("{name}+{:#x}", address - start),
            Some(Function { start, name, .. }) => format!("{name}+{:#x} ({address:#x})", address - start),
            None => format!("{address:#x}"),
        }
    }
}
