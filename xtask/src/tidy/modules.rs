//! The modules of a package, and which file uses which.
//!
//! The source is read as tokens: comments, strings and attributes hold no paths, and what
//! `#[cfg(test)]` stands before is left out. A path leads to the file that *defines* what it
//! names: a module that hands a name on by `pub use`, as a `mod.rs` does, is looked through. A
//! path that ends at a module leads nowhere, because the paths that begin with that module say what
//! is used of it. Methods and macros by their bare names are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tree::Tree;

/// The words behind which a name is defined.
const DEFINES: [&str; 8] = ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

/// Why a file needs another: the line, and the path that is written there.
pub type Tie = (usize, String);

/// By user and used: the ties, in the order of the lines.
pub type Ties = BTreeMap<(String, String), BTreeSet<Tie>>;

/// Which files of the package use which, from the file that is its root.
pub fn ties(tree: &Tree, root: &str) -> Ties {
    let mut package = Package { tree, modules: Vec::new() };
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    package.read(root, folder, None);
    package.ties()
}

/// A module: a file, or an inline part of one.
#[derive(Default)]
struct Module {
    file: String,
    /// Where the files of its children lie.
    folder: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// What it defines.
    items: BTreeSet<String>,
    /// What its `use` bring in, by the names that they give; `*` has no name.
    names: Vec<(String, Vec<String>)>,
    /// What it names, and where; `true` for a `use` that is not handed on.
    paths: Vec<(usize, Vec<String>)>,
}

/// What a path leads to.
enum End {
    Module(usize),
    /// Something that this module defines.
    Item(usize),
}

/// The names that are being looked up, each for the one before it: a name that leads back to itself
/// leads nowhere.
type Chain = Vec<(usize, String, Wants)>;

/// What a name is asked for, where it may be the name of both.
#[derive(Clone, Copy, PartialEq)]
enum Wants {
    Module,
    Item,
}

struct Package<'a> {
    tree: &'a Tree,
    modules: Vec<Module>,
}

impl Package<'_> {
    /// Reads the file of a module, and those of its children; returns its number.
    fn read(&mut self, file: &str, folder: &str, parent: Option<usize>) -> usize {
        let text = self.tree.file(file).and_then(|file| file.text.as_deref()).unwrap_or_default();
        // What the compiler cannot read it will say itself.
        let tokens = text.parse::<TokenStream>().unwrap_or_default();
        self.module(file, folder, parent, tokens)
    }

    fn module(&mut self, file: &str, folder: &str, parent: Option<usize>, body: TokenStream) -> usize {
        let module = self.modules.len();
        self.modules.push(Module { file: file.into(), folder: folder.into(), parent, ..Module::default() });
        self.walk(module, body, true);
        module
    }

    /// Goes through the tokens of a module, or of a group in it; `outside` where items stand.
    fn walk(&mut self, module: usize, tokens: TokenStream, outside: bool) {
        let mut tokens = Tokens { all: tokens.into_iter().collect(), at: 0 };
        let mut public = false;
        while let Some(token) = tokens.next() {
            let was_public = take(&mut public);
            let word = match token {
                TokenTree::Group(group) => {
                    let is_macro = tokens.is_macro();
                    self.walk(module, group.stream(), outside && is_macro);
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    if tokens.attribute() {
                        tokens.skip_item();
                    }
                    continue;
                }
                TokenTree::Ident(ident) => ident,
                TokenTree::Punct(_) | TokenTree::Literal(_) => continue,
            };
            let line = word.span().start().line;
            match &*word.to_string() {
                "pub" => {
                    tokens.next_if(|token| is_group(token, Delimiter::Parenthesis));
                    public = true;
                }
                "use" => {
                    let mut found = Vec::new();
                    tokens.tree(&mut Vec::new(), &mut found);
                    for (name, path) in found {
                        // A name that is handed on is used where it is named.
                        if !was_public && name != "*" {
                            self.modules[module].paths.push((line, path.clone()));
                        }
                        self.modules[module].names.push((name, path));
                    }
                }
                "mod" if outside => self.child(module, &mut tokens),
                defines if outside && DEFINES.contains(&defines) => {
                    if let Some(name) = tokens.defined() {
                        self.modules[module].items.insert(name);
                    }
                }
                "macro_rules" if outside => {
                    tokens.at += 1;
                    if let Some(name) = tokens.next() {
                        self.modules[module].items.insert(name.to_string());
                    }
                    if let Some(TokenTree::Group(body)) = tokens.next() {
                        self.walk(module, body.stream(), false);
                    }
                }
                _ if tokens.follows_path() => {}
                first => {
                    let mut path = vec![first.to_string()];
                    while let Some(next) = tokens.segment() {
                        path.push(next);
                    }
                    // A name before one colon is a field's or a variable's.
                    if !tokens.is(tokens.at, ':') {
                        self.modules[module].paths.push((line, path));
                    }
                }
            }
        }
    }

    /// Behind the word `mod`: reads the child.
    fn child(&mut self, module: usize, tokens: &mut Tokens) {
        let Some(name) = tokens.next().map(|name| name.to_string()) else { return };
        let folder = format!("{}/{name}", self.modules[module].folder);
        let child = match tokens.next() {
            Some(TokenTree::Group(body)) => {
                let file = self.modules[module].file.clone();
                self.module(&file, &folder, Some(module), body.stream())
            }
            _ => {
                let files = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
                let Some(file) = files.iter().find(|file| self.tree.file(file).is_some()) else { return };
                self.read(file, &folder, Some(module))
            }
        };
        self.modules[module].children.insert(name, child);
    }

    fn ties(&self) -> Ties {
        let mut ties = Ties::new();
        for (number, module) in self.modules.iter().enumerate() {
            for (line, path) in &module.paths {
                let Some(End::Item(end)) = self.resolve(number, path, Wants::Item, &mut Vec::new()) else {
                    continue;
                };
                let (user, used) = (&module.file, &self.modules[end].file);
                if user != used {
                    let tie = (*line, path.join("::"));
                    ties.entry((user.clone(), used.clone())).or_default().insert(tie);
                }
            }
        }
        ties
    }

    /// Where a path leads that is written in this module; none out of the package. Its last name
    /// may be both an item and a module, as `copy` behind `pub use copy::copy`: `wants` says which.
    fn resolve(&self, module: usize, path: &[String], wants: Wants, chain: &mut Chain) -> Option<End> {
        let (first, mut rest) = path.split_first()?;
        let wants = |behind: &[String]| if behind.is_empty() { wants } else { Wants::Module };
        let mut end = match &**first {
            "crate" => End::Module(0),
            "self" => End::Module(module),
            "super" => End::Module(self.modules[module].parent?),
            name => self.look_up(module, name, wants(rest), chain)?,
        };
        while let (End::Module(at), Some((name, further))) = (&end, rest.split_first()) {
            end = match &**name {
                "super" => End::Module(self.modules[*at].parent?),
                // What no `use` or definition shows is made by a macro of that module.
                name => self.look_up(*at, name, wants(further), chain).unwrap_or(End::Item(*at)),
            };
            rest = further;
        }
        Some(end)
    }

    /// What a module means by a name: what it defines or brings in by this name, else by `*`.
    fn look_up(&self, module: usize, name: &str, wants: Wants, chain: &mut Chain) -> Option<End> {
        let asked = (module, name.to_owned(), wants);
        if chain.contains(&asked) {
            return None;
        }
        chain.push(asked);
        let end = self.named(module, name, wants, chain).or_else(|| self.by_glob(module, name, wants, chain));
        chain.pop();
        end
    }

    /// What a module defines or brings in by this name: what is wanted, else what there is.
    fn named(&self, module: usize, name: &str, wants: Wants, chain: &mut Chain) -> Option<End> {
        let here = &self.modules[module];
        let item = here.items.contains(name).then_some(End::Item(module));
        let child = here.children.get(name).map(|&child| End::Module(child));
        let brought = here.names.iter().filter(|(known, _)| known == name);
        let brought = brought.filter_map(|(_, path)| self.resolve(module, path, wants, chain));
        let mut other = None;
        for end in item.into_iter().chain(child).chain(brought) {
            if matches!(end, End::Item(_)) == (wants == Wants::Item) {
                return Some(end);
            }
            other.get_or_insert(end);
        }
        other
    }

    fn by_glob(&self, module: usize, name: &str, wants: Wants, chain: &mut Chain) -> Option<End> {
        let globs = self.modules[module].names.iter().filter(|(known, _)| known == "*");
        globs.into_iter().find_map(|(_, path)| match self.resolve(module, path, Wants::Module, chain)? {
            End::Module(from) => self.look_up(from, name, wants, chain),
            End::Item(_) => None,
        })
    }
}

/// The tokens of a group, one after another.
struct Tokens {
    all: Vec<TokenTree>,
    /// The next one.
    at: usize,
}

impl Tokens {
    fn next(&mut self) -> Option<TokenTree> {
        let token = self.all.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn next_if(&mut self, is: impl Fn(&TokenTree) -> bool) -> Option<TokenTree> {
        self.all.get(self.at).is_some_and(is).then(|| self.next()).flatten()
    }

    fn is(&self, at: usize, sign: char) -> bool {
        matches!(self.all.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
    }

    /// Whether the group that was read last belongs to a macro: `name! { … }`.
    fn is_macro(&self) -> bool {
        self.at >= 2 && self.is(self.at - 2, '!')
    }

    /// Whether the word that was read last is no beginning of a path: a field or method, a part of
    /// a longer path, a lifetime.
    fn follows_path(&self) -> bool {
        let before = |back: usize, sign| self.at > back && self.is(self.at - 1 - back, sign);
        before(1, '\'') || before(1, ':') && before(2, ':') || before(1, '.') && !before(2, '.')
    }

    /// The name behind a word that defines one; none where the word does not: `*const T`,
    /// `fn(u32)`, `const fn`.
    fn defined(&mut self) -> Option<String> {
        const NO_NAMES: [&str; 4] = ["async", "extern", "fn", "unsafe"];
        if self.at >= 2 && self.is(self.at - 2, '*') {
            return None;
        }
        self.next_if(|token| matches!(token, TokenTree::Ident(word) if word == "mut"));
        let is_name = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if !NO_NAMES.contains(&&*word.to_string()));
        self.next_if(is_name).map(|name| name.to_string())
    }

    /// The next segment of a path.
    fn segment(&mut self) -> Option<String> {
        if !(self.is(self.at, ':') && self.is(self.at + 1, ':')) {
            return None;
        }
        let Some(TokenTree::Ident(name)) = self.all.get(self.at + 2) else { return None };
        let name = name.to_string();
        self.at += 3;
        Some(name)
    }

    /// Behind the sign of an attribute: whether it leaves its item to tests.
    fn attribute(&mut self) -> bool {
        self.next_if(|token| matches!(token, TokenTree::Punct(_)));
        let Some(TokenTree::Group(group)) = self.next_if(|token| is_group(token, Delimiter::Bracket)) else {
            return false;
        };
        let text = group.stream().to_string();
        let mut words = text.split(|sign: char| !sign.is_alphanumeric() && sign != '_');
        words.next() == Some("cfg")
            && words.clone().any(|word| word == "test")
            && !words.any(|word| word == "not")
    }

    /// Goes past an item, a field, a variant or an arm.
    fn skip_item(&mut self) {
        const ITEMS: [&str; 8] = ["async", "extern", "impl", "let", "macro_rules", "mod", "unsafe", "use"];
        let (mut is_item, mut is_use) = (false, false);
        while let Some(token) = self.next() {
            match token {
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    is_item |= ITEMS.contains(&&*word) || DEFINES.contains(&&*word);
                    is_use |= word == "use";
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => return,
                TokenTree::Punct(punct) if punct.as_char() == ',' && !is_item => return,
                token if is_group(&token, Delimiter::Brace) && !is_use => return,
                _ => {}
            }
        }
    }

    /// A tree of `use`: each name that it brings in, with its path.
    fn tree(&mut self, before: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
        let depth = before.len();
        let mut name = String::new();
        while let Some(token) = self.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    name = self.next().map(|name| name.to_string()).unwrap_or_default();
                }
                // `{self}` brings in what stands before the brace.
                TokenTree::Ident(word) if word == "self" && depth > 0 => {
                    name = before.last().cloned().unwrap_or_default();
                }
                TokenTree::Ident(word) => {
                    name = word.to_string();
                    before.push(name.clone());
                }
                TokenTree::Group(group) => {
                    let mut inner = Tokens { all: group.stream().into_iter().collect(), at: 0 };
                    while inner.at < inner.all.len() {
                        inner.tree(before, found);
                    }
                    name.clear();
                }
                TokenTree::Punct(punct) => match punct.as_char() {
                    '*' => name = "*".into(),
                    ',' | ';' => break,
                    _ => {}
                },
                TokenTree::Literal(_) => {}
            }
        }
        if !name.is_empty() {
            found.push((name, before.clone()));
        }
        before.truncate(depth);
    }
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}
