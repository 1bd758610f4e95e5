//! Which format a client gets, by its `Accept` header.
//!
//! The header lists media types with parameters and a quality (`q`, 1 unless given). The first of
//! the best quality that the exporter has is taken. A client that accepts none of them, or says
//! nothing, gets the old text format, as from other exporters.

use crate::metric::Family;
use crate::text::Dialect;
use crate::{protobuf, text};

/// A format of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Protobuf, with native histograms.
    Protobuf,
    /// One of the text formats.
    Text(Dialect),
}

impl Format {
    /// The best format for a client with this `Accept` header.
    ///
    /// ```
    /// use exporter::negotiate::Format;
    /// use exporter::text::Dialect;
    ///
    /// let accept = "text/plain;q=0.5, application/openmetrics-text; version=1.0.0; q=0.8";
    /// assert_eq!(Format::accepted(accept), Format::Text(Dialect::OpenMetrics));
    /// assert_eq!(Format::accepted(""), Format::Text(Dialect::Prometheus));
    /// ```
    pub fn accepted(accept: &str) -> Format {
        let mut best = (0.0, Format::Text(Dialect::Prometheus));
        for entry in accept.split(',') {
            if let Some((format, quality)) = read(entry)
                && quality > best.0
            {
                best = (quality, format);
            }
        }
        best.1
    }

    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
            Format::Text(Dialect::OpenMetrics) => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
            Format::Text(Dialect::Prometheus) => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Families in this format.
    pub fn write(self, families: &[Family]) -> Vec<u8> {
        match self {
            Format::Protobuf => protobuf::write(families),
            Format::Text(dialect) => text::write(families, dialect).into_bytes(),
        }
    }
}

/// One entry of the header: the format, if it is one of ours, and its quality.
fn read(entry: &str) -> Option<(Format, f64)> {
    let mut parts = entry.split(';').map(|part| part.trim().to_ascii_lowercase());
    let media = parts.next()?;
    let parameters: Vec<(String, String)> = parts
        .filter_map(|part| {
            let (name, value) = part.split_once('=')?;
            Some((name.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
        })
        .collect();
    let of = |name: &str| parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let quality = of("q").map_or(Some(1.0), |text| text.parse().ok())?;
    let is = |name: &str, wanted: &[&str]| of(name).is_none_or(|value| wanted.contains(&value));
    let format = match media.as_str() {
        "application/vnd.google.protobuf"
            if of("proto") == Some("io.prometheus.client.metricfamily")
                && of("encoding") == Some("delimited") =>
        {
            Format::Protobuf
        }
        "application/openmetrics-text" if is("version", &["1.0.0", "0.0.1"]) => {
            Format::Text(Dialect::OpenMetrics)
        }
        "text/plain" | "text/*" | "*/*" if is("version", &["0.0.4"]) => Format::Text(Dialect::Prometheus),
        _ => return None,
    };
    Some((format, quality))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_protobuf_if_it_asks_for_native_histograms() {
        let text = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(text), Format::Text(Dialect::OpenMetrics));
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8";
        assert_eq!(Format::accepted(native), Format::Protobuf);
    }

    #[test]
    fn what_is_not_understood_is_passed_over() {
        for accept in ["*/*", "text/html", "text/plain", ";;,,q=", "application/vnd.google.protobuf", "a;q=x"]
        {
            assert_eq!(Format::accepted(accept), Format::Text(Dialect::Prometheus), "{accept}");
        }
        let other = "application/openmetrics-text;version=2.0.0, text/plain;q=0.1";
        assert_eq!(Format::accepted(other), Format::Text(Dialect::Prometheus));
        assert_eq!(Format::accepted("application/openmetrics-text;q=0"), Format::Text(Dialect::Prometheus));
    }
}
