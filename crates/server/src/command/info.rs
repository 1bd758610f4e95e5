//! INFO: what the server did and does, in sections of lines; and ROLE and TIME.

use super::definition::Call;
use super::syntax::is;
use crate::pubsub::Kind;
use crate::resp::{Args, Replies};
use crate::shared::Shared;
use crate::transact::transact;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The version of Redis whose clients find what they expect.
pub(super) const REDIS_VERSION: &str = "7.0.15";

type Section = (&'static str, fn(&Shared, &mut String));

const SECTIONS: [Section; 7] = [
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("persistence", persistence),
    ("stats", stats),
    ("transactions", transactions),
    ("keyspace", keyspace),
];

pub(super) fn info(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    let all = args.len() == 1
        || args.from(1).any(|word| ["all", "default", "everything"].iter().any(|known| is(word, known)));
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if all || args.from(1).any(|word| is(word, name)) {
            let (first, rest) = name.split_at(1);
            if !text.is_empty() {
                text += "\r\n";
            }
            text += &format!("# {}{rest}\r\n", first.to_ascii_uppercase());
            write(call.shared, &mut text);
        }
    }
    out.verbatim(&text);
}

macro_rules! lines {
    ($text:ident: $($name:literal $value:expr),* $(,)?) => {
        $(let _ = write!($text, concat!($name, ":{}\r\n"), $value);)*
    };
}

fn server(shared: &Shared, text: &mut String) {
    let up = shared.started.elapsed().as_secs();
    lines!(text:
        "redis_version" REDIS_VERSION,
        "redis_mode" "standalone",
        "manx_version" env!("CARGO_PKG_VERSION"),
        "manx_model" shared.options.model,
        "process_id" std::process::id(),
        "tcp_port" shared.address.port(),
        "uptime_in_seconds" up,
        "uptime_in_days" up / 86_400,
    );
}

fn clients(shared: &Shared, text: &mut String) {
    lines!(text:
        "connected_clients" shared.peers.count(),
        "maxclients" shared.options.connections_max,
        "blocked_clients" shared.waiters.count(),
    );
}

fn memory(shared: &Shared, text: &mut String) {
    let memory = &shared.memory;
    memory.ask(&shared.store);
    let (used, peak, max) = (memory.used_bytes(), memory.peak_bytes(), memory.bytes_max.unwrap_or(0));
    let resident = platform::usage::resident_bytes_of(std::process::id()).unwrap_or(0);
    lines!(text:
        "used_memory" used,
        "used_memory_human" human(used),
        "used_memory_rss" resident,
        "used_memory_rss_human" human(resident),
        "used_memory_peak" peak,
        "used_memory_peak_human" human(peak),
        "mem_clients_normal" shared.buffers.bytes(),
        "maxmemory" max,
        "maxmemory_human" human(max),
        "maxmemory_policy" shared.options.eviction,
        "mem_fragmentation_ratio" format_args!("{:.2}", resident as f64 / used.max(1) as f64),
        // Of versions that no transaction needs, which are about to be freed.
        "mem_garbage" shared.store.stats().garbage_bytes,
    );
}

/// As Redis writes it.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", UNITS[unit])
}

fn persistence(shared: &Shared, text: &mut String) {
    let copies = shared.backups.state();
    // As Redis says that there is none.
    let seconds = |time: Option<Duration>| time.map_or(-1, |time| time.as_secs() as i64);
    lines!(text:
        "loading" 0,
        "rdb_bgsave_in_progress" u8::from(copies.running_since.is_some()),
        "rdb_last_save_time" copies.last_unix_s,
        "rdb_last_bgsave_status" if copies.last_failed { "err" } else { "ok" },
        "rdb_last_bgsave_time_sec" seconds(copies.last_took),
        "rdb_current_bgsave_time_sec" seconds(copies.running_since.map(|began| began.elapsed())),
        "aof_enabled" u8::from(shared.options.durable),
        "aof_last_write_status" if shared.writing.has_failed() { "err" } else { "ok" },
    );
}

fn stats(shared: &Shared, text: &mut String) {
    let counts = &shared.counts;
    lines!(text:
        "total_connections_received" counts.connections.load(Relaxed),
        "total_commands_processed" shared.peers.commands(),
        "rejected_connections" counts.rejected.load(Relaxed),
        "client_output_buffer_limit_disconnections" counts.slow.load(Relaxed),
        "idle_disconnections" counts.idle.load(Relaxed),
        "evicted_keys" counts.evicted.load(Relaxed),
        "pubsub_channels" shared.pubsub.count(Kind::Channel),
        "pubsub_patterns" shared.pubsub.count(Kind::Pattern),
        "pubsubshard_channels" shared.pubsub.count(Kind::Shard),
        "evicted_clients" counts.evicted_clients.load(Relaxed),
        "protocol_errors" counts.malformed.load(Relaxed),
    );
}

fn transactions(shared: &Shared, text: &mut String) {
    let stats = shared.store.stats();
    lines!(text:
        "transactions_committed" stats.committed,
        "transactions_refused" stats.refused,
        "transactions_begun_again" shared.counts.retries.load(Relaxed),
        "current_id" stats.current_id,
        "oldest_id" stats.oldest_id,
    );
}

fn keyspace(shared: &Shared, text: &mut String) {
    let counted = shared.keyspace.count.get().or_else(|| {
        let mut session = shared.store.session().ok()?;
        transact(shared, &mut session, &mut Replies::new(0), |ops, _| ops.count_keys()).ok()
    });
    // As in Redis, an empty database is not mentioned.
    if let Some((keys @ 1.., expires)) = counted {
        let _ = write!(text, "db0:keys={keys},expires={expires},avg_ttl=0\r\n");
    }
}

/// As a primary server without replicas says it.
pub(super) fn role(_: &mut Call<'_>, _: Args<'_>, out: &mut Replies) {
    out.array(3);
    out.bulk(b"master");
    out.integer(0);
    out.array(0);
}

pub(super) fn time(_: &mut Call<'_>, _: Args<'_>, out: &mut Replies) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    out.array(2);
    out.bulk(now.as_secs().to_string().as_bytes());
    out.bulk(now.subsec_micros().to_string().as_bytes());
}
