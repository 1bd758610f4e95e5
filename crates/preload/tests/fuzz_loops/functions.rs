//! Random functions in C and C++, with loops that wait and loops that work.
//!
//! A function is a tree of statements. Each is a block of its own that adds to what the function
//! returns, so that any of them may be left out: that is how a function that fails is shrunk.

use fastrand::Rng;

/// A statement: text, and statements inside.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Text, each with the statements behind it.
    parts: Vec<(String, Vec<Statement>)>,
    tail: String,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    body: Vec<Statement>,
    /// Waits for another thread.
    pub waits: bool,
}

impl Statement {
    fn leaf(text: impl Into<String>) -> Statement {
        Statement { parts: Vec::new(), tail: text.into() }
    }

    fn write(&self, into: &mut String) {
        for (text, inside) in &self.parts {
            into.push_str(text);
            into.push('\n');
            inside.iter().for_each(|statement| statement.write(into));
        }
        into.push_str(&self.tail);
        into.push('\n');
    }

    fn count(&self) -> usize {
        1 + self.parts.iter().flat_map(|(_, inside)| inside).map(Statement::count).sum::<usize>()
    }
}

/// Leaves the statement number `n` out, counted from the front, with all inside.
fn remove(statements: &mut Vec<Statement>, n: &mut usize) -> bool {
    for at in 0..statements.len() {
        if *n == 0 {
            statements.remove(at);
            return true;
        }
        *n -= 1;
        for (_, inside) in &mut statements[at].parts {
            if remove(inside, n) {
                return true;
            }
        }
    }
    false
}

impl Function {
    /// Draws a function.
    pub fn draw(dice: &mut Rng, cpp: bool) -> Function {
        let waits = dice.u8(..3) == 0;
        let mut author = Author { dice, cpp, waits, names: 0, depth: 0 };
        let count = author.dice.usize(1..5);
        let body = (0..count).map(|_| author.statement()).collect();
        Function { body, waits }
    }

    /// How many statements it has.
    pub fn statements(&self) -> usize {
        self.body.iter().map(Statement::count).sum()
    }

    /// The same without one of its statements.
    pub fn without(&self, mut n: usize) -> Function {
        let mut less = self.clone();
        remove(&mut less.body, &mut n);
        less
    }
}

/// A program of these functions.
pub fn program(functions: &[Function]) -> String {
    let mut text = String::from("#include \"fuzz.h\"\n");
    for (n, function) in functions.iter().enumerate() {
        text.push_str(&format!("\nNOIPA static uint64_t f{n}(struct env *e) {{\n"));
        text.push_str("uint64_t r = e->n;\ndouble d = e->x;\nvector v = {d, d + 1, d + 2, d + 3};\n");
        function.body.iter().for_each(|statement| statement.write(&mut text));
        text.push_str("return mix(mix(r, bits_of(d)), bits_of(v[0] + v[1] * 3 + v[2] * 5 + v[3] * 7));\n}\n");
    }
    text.push_str("\nconst struct function functions[] = {\n");
    for (n, function) in functions.iter().enumerate() {
        text.push_str(&format!("{{f{n}, {}}},\n", u8::from(function.waits)));
    }
    text.push_str(&format!("}};\nconst int functions_count = {};\n", functions.len()));
    text
}

struct Author<'a> {
    dice: &'a mut Rng,
    cpp: bool,
    waits: bool,
    /// How many names have been given.
    names: u32,
    depth: u32,
}

/// How often something is drawn, and what.
macro_rules! one_of {
    ($author:expr, $($text:expr),+ $(,)?) => {{
        let all = [$($text),+];
        all[$author.dice.usize(..all.len())].clone()
    }};
}

impl Author<'_> {
    fn name(&mut self) -> u32 {
        self.names += 1;
        self.names
    }

    fn some(&mut self, count: core::ops::Range<usize>) -> Vec<Statement> {
        let count = self.dice.usize(count);
        (0..count).map(|_| self.statement()).collect()
    }

    fn statement(&mut self) -> Statement {
        self.depth += 1;
        let deep = self.depth > 3;
        let statement = match self.dice.u8(..16) {
            0..=5 => self.counted(),
            6 if self.waits => self.unbounded(),
            7 if self.cpp && self.waits => self.comes_back(),
            8 | 9 if !deep => self.around(),
            10 if self.cpp && !deep => self.handled(),
            _ => self.work(),
        };
        self.depth -= 1;
        statement
    }

    /// Something that is no loop, or a loop that works.
    fn work(&mut self) -> Statement {
        let n = self.name();
        let k = self.dice.u32(..32);
        Statement::leaf(one_of!(
            self,
            format!("r = mix(r, e->table[{k}]);"),
            "d = d * 1.0625 + (double)(r & 15);".to_owned(),
            "v = v * 1.5 + d;".to_owned(),
            "r = look(r);".to_owned(),
            "if (RARE(e->x > 9)) { rare(e); r++; }".to_owned(),
            format!("e->out[{}] += (long)(r & 255);", k % 8),
            format!("for (unsigned k{n} = 0; k{n} < e->n; k{n}++) r = mix(r, (uint64_t)e->table[k{n}]);"),
            format!(
                "{{ double t{n}[16]; for (int k = 0; k < 16; k++) t{n}[k] = (double)e->table[k] * d; \
                 for (int k = 0; k < 16; k++) d += t{n}[k] * 0.001; }}"
            ),
            format!(
                "switch (r % 9) {{ case 0: r += 3; break; case 1: r = look(r); break; case 2: d += 1; break; \
                 case 3: e->out[{}]++; break; case 4: r ^= 77; break; case 6: r *= 5; break; case 7: d *= 0.5; \
                 break; default: r--; }}",
                k % 8
            ),
            format!(
                "{{ const char *s{n} = \"{k} characters\"; while (*s{n}) r = mix(r, (uint64_t)*s{n}++); }}"
            ),
        ))
    }

    fn hint(&mut self) -> &'static str {
        one_of!(
            self,
            "PAUSE;",
            "PAUSE;",
            "PAUSE;",
            "PAUSE; PAUSE;",
            "NOPS;",
            "",
            "relax();",
            "PAUSE; PAUSE; PAUSE; PAUSE;"
        )
    }

    /// Whether a word is written.
    fn seen(&mut self, word: &str) -> String {
        let (k, other) = (self.dice.u8(..8), self.dice.u8(..8));
        one_of!(
            self,
            format!("e->{word}[{k}]"),
            format!("e->{word}[{k}] == 1"),
            format!("(e->{word}[{k}] & 1)"),
            format!("(e->{word}[{k}] && e->{word}[{other}])"),
            format!("(e->{word}[{k}] || e->{word}[{other}])"),
            format!("env.{word}[{k}] != 0"),
            format!("__atomic_load_n(&e->{word}[{k}], __ATOMIC_ACQUIRE)"),
        )
    }

    /// What a round does beside.
    fn beside(&mut self, n: u32) -> Vec<Statement> {
        if self.dice.u8(..3) != 0 {
            return Vec::new();
        }
        let k = self.dice.u8(..8);
        Vec::from([Statement::leaf(one_of!(
            self,
            format!("s{n} = mix(s{n}, 3);"),
            format!("s{n} += 7;"),
            format!("if (((long)i{n} & 3) == 1) s{n}++;"),
            format!("e->out[{k}]++;"),
            format!("e->out[{k}] = 5;"),
            format!("s{n} = look(s{n});"),
            format!("f{n} = f{n} * 0.5 + 1;"),
            format!("for (int k = 0; k < 4; k++) s{n} += (uint64_t)e->table[k];"),
            format!(
                "switch (s{n} % 6) {{ case 0: s{n} += 2; break; case 1: s{n} += 3; break; case 2: s{n} ^= 9; break; case 4: s{n} += 5; break; default: s{n}++; }}"
            ),
            format!("if (RARE(e->x > 9)) {{ rare(e); s{n}++; }}"),
            format!("if (e->table[{k}] == 1000) break;"),
            format!("if (e->table[{k}] == 1000) continue;"),
        ))])
    }

    /// What happens when a wait has lasted too long.
    fn too_late(&mut self) -> Vec<Statement> {
        let mut all = Vec::new();
        if self.dice.bool() {
            let mut ways = Vec::from([
                "pthread_mutex_lock(&fuzz_mutex); late++; pthread_mutex_unlock(&fuzz_mutex);",
                "sched_yield();",
                "usleep(1);",
                "poll(NULL, 0, 0);",
                "r += syscall(SYS_gettid) > 0;",
                "syscall(SYS_futex, &e->out[0], FUTEX_WAKE, 1, NULL, NULL, 0);",
                "rare(e);",
                "late++;",
            ]);
            if self.cpp {
                ways.push(
                    "try { r = mix(r, may_throw(r & 1, 1)); } catch (uint64_t x) { r = mix(r, x + 17); }",
                );
            }
            all.push(Statement::leaf(ways[self.dice.usize(..ways.len())]));
        }
        all
    }

    /// A wait that gives up after a number of rounds.
    fn counted(&mut self) -> Statement {
        let n = self.name();
        let (i, j) = (format!("i{n}"), format!("j{n}"));
        let rounds: u64 = match self.dice.u8(..8) {
            0 => self.dice.u64(..4),
            1 => self.dice.u64(4..200),
            2 | 3 => self.dice.u64(200..3000),
            _ if self.depth > 2 => self.dice.u64(..300),
            _ => self.dice.u64(3000..30000),
        };
        let (kind, float) = match self.dice.u8(..10) {
            0..=2 => ("int", false),
            3 | 4 => ("unsigned", false),
            5 => ("long", false),
            6 => ("uint64_t", false),
            7 => ("uint16_t", false),
            8 => ("double", true),
            _ => ("float", true),
        };
        let volatile = if self.dice.u8(..12) == 0 { "volatile " } else { "" };
        let step = if float { 1 } else { self.dice.u64(1..5) };
        let total = rounds * step;
        // Where the bound is.
        let bound = match self.dice.u8(..6) {
            0 if !float => format!("b{n}"),
            1 => format!("*(volatile {kind} *)&m{n}"),
            2 => format!("*p{n}"),
            _ => format!("({kind}){total}"),
        };
        let up = self.dice.bool() || bound.contains('*');
        let (begin, goes_on, next) = if up {
            let less = if self.dice.bool() || float { "<" } else { "!=" };
            ("0".to_owned(), format!("{i} {less} {bound}"), format!("{i} += {step}"))
        } else {
            (format!("({kind}){total}"), format!("{i} > 0"), format!("{i} -= {step}"))
        };
        let seen = self.seen("never");
        let hint = self.hint();
        let second = self.dice.u8(..5) == 0;
        let twice = if second { format!("{j} += 3;") } else { String::new() };
        let escapes = self.dice.u8(..12) == 0 && !float;
        let mut head =
            format!("{{ {volatile}{kind} {i} = {begin}; uint64_t s{n} = r, {j} = 0; double f{n} = d;\n");
        head.push_str(&format!(
            "static {kind} m{n} = {total}; {kind} *volatile p{n} = &m{n}; {kind} b{n} = *p{n}; (void)b{n};\n"
        ));
        if escapes {
            head.push_str(&format!("publish((void *)&{i});\n"));
        }
        let beside = self.beside(n);
        let unroll = one_of!(self, "", "", "", "\n#pragma GCC unroll 4\n");
        let (open, close) = match self.dice.u8(..4) {
            0 => (
                format!("{unroll}for (; {goes_on}; {next}) {{ if ({seen}) goto out{n}; {twice}"),
                format!("{hint} }}"),
            ),
            1 => (
                format!("{unroll}for (; {goes_on}; {next}) {{ {hint} {twice}"),
                format!("if ({seen}) goto out{n}; }}"),
            ),
            2 => (
                format!("while ({goes_on} && !({seen})) {{ {next}; {twice}"),
                format!("{hint} }} if ({seen}) goto out{n};"),
            ),
            _ => (
                format!("for (;;) {{ if (!({goes_on})) break; {next}; if (LIKELY(!({seen}))) {{ {twice}"),
                format!("{hint} continue; }} goto out{n}; }}"),
            ),
        };
        // A `continue` of what is done beside skips the rest of a round, and so does a `break`.
        let whole = volatile.is_empty() && kind != "uint16_t" && !float;
        let check = if second && whole && beside.is_empty() {
            match up {
                true => format!("CHECK({j} * {step} <= 3 * (uint64_t){i} + 3 * {step});"),
                false => format!("CHECK({j} <= 3 * {rounds}u);"),
            }
        } else {
            String::new()
        };
        let used = one_of!(self, format!("r = mix(r, (uint64_t){i});"), String::new());
        let parts = Vec::from([(head + &open, beside), (format!("{close}\n{{"), self.too_late())]);
        let tail = format!(
            "r = mix(r, 1); }}\nout{n}: {check} {used} r = mix(mix(r, s{n}), {j}); d += f{n} * 0.25; }}"
        );
        Statement { parts, tail }
    }

    /// A wait without a bound.
    fn unbounded(&mut self) -> Statement {
        let n = self.name();
        let (seen, hint) = (self.seen("soon"), self.hint());
        let text = one_of!(
            self,
            format!("while (!({seen})) {{ {hint} }}"),
            format!("do {{ {hint} }} while (!({seen}));"),
            format!("for (;;) {{ if ({seen}) break; {hint} }}"),
            format!(
                "for (;;) {{ for (int k{n} = 0; k{n} < 500; k{n}++) {{ if ({seen}) goto out{n}; {hint} }} sched_yield(); }} out{n}:;"
            ),
            format!(
                "for (;;) {{ unsigned long sum = 0; for (int k = 0; k < 8; k++) sum += (unsigned long)e->soon[k]; {hint} if (sum == 8) break; }}"
            ),
            format!("for (int k{n} = 0; k{n} < 8; k{n}++) while (!e->soon[k{n}]) {{ {hint} }}"),
            format!(
                "{{ uint64_t t{n} = __builtin_ia32_rdtsc(); while (!({seen})) {{ if (__builtin_ia32_rdtsc() - t{n} > (1ull << 50)) abort(); {hint} }} }}"
            ),
        );
        Statement::leaf(format!("{{ {text} r = mix(r, 2); }}"))
    }

    /// A wait that a handler of an exception comes back into.
    fn comes_back(&mut self) -> Statement {
        let n = self.name();
        let (seen, hint) = (self.seen("soon"), self.hint());
        let first = self.dice.bool();
        let likely = one_of!(self, "LIKELY", "RARE", "");
        let least = self.dice.u8(1..20);
        Statement::leaf(format!(
            "{{ bool again{n} = {first}; uint64_t t{n} = 0; while (true) {{ if (!again{n}) {{ {hint} }} again{n} = false; \
             if ({likely}(!({seen}))) continue; \
             try {{ r = mix(r, may_throw(t{n}, {least})); break; }} catch (uint64_t x) {{ t{n} = x + 1; again{n} = true; }} }} }}"
        ))
    }

    /// Statements inside.
    fn around(&mut self) -> Statement {
        let n = self.name();
        let times = self.dice.u8(1..4);
        match self.dice.u8(..4) {
            0 => Statement {
                parts: Vec::from([(
                    format!("for (int t{n} = 0; t{n} < {times}; t{n}++) {{"),
                    self.some(1..3),
                )]),
                tail: "}".into(),
            },
            1 => Statement {
                parts: Vec::from([
                    ("if (r & 4) {".into(), self.some(0..3)),
                    ("} else {".into(), self.some(0..3)),
                ]),
                tail: "}".into(),
            },
            2 => Statement {
                parts: Vec::from([(
                    format!("for (unsigned t{n} = 0; t{n} < e->n; t{n} += 2) {{"),
                    self.some(1..2),
                )]),
                tail: "sched_yield(); }".into(),
            },
            _ => {
                let mut parts: Vec<(String, Vec<Statement>)> = Vec::new();
                for case in 0..7 {
                    let open = match case {
                        0 => format!("switch (mix(r, {n}) % 8) {{ case 0: {{"),
                        _ => format!("break; }} case {case}: {{"),
                    };
                    let inside =
                        if self.dice.u8(..3) == 0 { self.some(1..2) } else { Vec::from([self.work()]) };
                    parts.push((open, inside));
                }
                Statement { parts, tail: "break; } default: r += 11; }".into() }
            }
        }
    }

    /// Statements in a block whose exceptions are handled.
    fn handled(&mut self) -> Statement {
        let least = self.dice.u8(..16);
        let parts = Vec::from([
            ("try {".to_owned(), self.some(1..3)),
            (
                format!("r = mix(r, may_throw(r & 15, {least})); }} catch (uint64_t x) {{ r = mix(r, x);"),
                self.some(0..2),
            ),
        ]);
        Statement { parts, tail: "}".into() }
    }
}
