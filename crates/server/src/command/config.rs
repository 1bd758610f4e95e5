//! CONFIG: what clients ask for before they begin, and what the server was started with. Nothing
//! can be changed.

use super::definition::Call;
use super::syntax::help;
use crate::glob;
use crate::resp::{Args, Replies};
use crate::shared::Shared;

pub(super) fn config(call: &mut Call<'_>, args: Args<'_>, out: &mut Replies) {
    match &*args[1].to_ascii_lowercase() {
        b"get" => {
            let settings = settings(call.shared);
            let is_wanted = |name: &str| {
                args.from(2).any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
            };
            let wanted: Vec<_> = settings.into_iter().filter(|(name, _)| is_wanted(name)).collect();
            out.map(wanted.len());
            for (name, value) in wanted {
                out.bulk(name.as_bytes());
                out.bulk(value.as_bytes());
            }
        }
        b"set" => {
            let name = String::from_utf8_lossy(&args[2]);
            out.error(&format!("ERR CONFIG SET failed - {name} is said at the start: see manx serve --help"));
        }
        b"resetstat" => {
            call.shared.counts.reset();
            out.ok();
        }
        b"rewrite" => {
            out.error("ERR The server is running without a config file");
        }
        _ => help("CONFIG", &HELP, out),
    }
}

fn settings(shared: &Shared) -> Vec<(&'static str, String)> {
    let options = &shared.options;
    vec![
        ("save", String::new()),
        ("appendonly", if options.durable { "yes" } else { "no" }.into()),
        ("appendfsync", "always".into()),
        ("bind", shared.address.ip().to_string()),
        ("port", shared.address.port().to_string()),
        ("unixsocket", options.unix_socket.as_ref().map_or_else(String::new, |at| at.display().to_string())),
        ("unixsocketperm", format!("{:o}", options.unix_socket_permissions.unwrap_or(0))),
        ("aclfile", options.acl_file.as_ref().map_or_else(String::new, |at| at.display().to_string())),
        ("dir", shared.backups.folder().map_or_else(String::new, |at| at.display().to_string())),
        ("databases", "1".into()),
        ("maxclients", options.connections_max.to_string()),
        ("maxmemory", shared.memory.bytes_max.unwrap_or(0).to_string()),
        ("maxmemory-policy", options.eviction.to_string()),
        ("maxmemory-clients", options.buffers_bytes_max.unwrap_or(0).to_string()),
        ("proto-max-bulk-len", options.input_bytes_max.to_string()),
        ("client-query-buffer-limit", options.input_bytes_max.to_string()),
        ("client-output-buffer-limit", format!("normal {} 0 0", options.output_bytes_max)),
        ("timeout", options.idle_timeout.map_or(0, |time| time.as_secs().max(1)).to_string()),
        ("slowlog-log-slower-than", options.slowlog_above.as_micros().to_string()),
        ("slowlog-max-len", options.slowlog_entries_max.to_string()),
        ("io-threads", "1".into()),
        ("cluster-enabled", "no".into()),
    ]
}

const HELP: [&str; 4] = [
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
];
