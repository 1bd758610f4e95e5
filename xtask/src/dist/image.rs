//! An image for containers, in a folder: `oci-layout`, `index.json`, and in `blobs/sha256` a layer,
//! a configuration and a manifest, each under its checksum (Open Container Initiative, Image Format
//! Specification 1.0). Skopeo, Podman, Buildah and containerd read such a folder.
//!
//! | path in the image | what it is |
//! | --- | --- |
//! | `/usr` | what the package installs, for `COPY --from` |
//! | `/manx` | the preloaded libraries, for an init container (`docs/kubernetes.yaml`) |
//! | `/bin/busybox`, `/bin/cp` | Debian's static busybox, which copies them; its licence lies in `/usr/share/doc` |

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::package;
use super::place::{Dist, VERSION, emptied, make_folder, write};
use crate::outcome::Result;
use crate::process::capture;

const CONFIGURATION: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const BUSYBOX_LICENCE: &str = "usr/share/doc/busybox-static/copyright";

/// Makes the image of what the package installs. Returns its folder.
///
/// # Errors
/// If a file cannot be written, or a tool fails.
pub fn make(dist: &Dist, sysroot: &Path) -> Result<PathBuf> {
    let image = emptied(&dist.out.join("oci"))?;
    make_folder(&image.join("blobs/sha256"))?;
    let folder = emptied(&dist.parts.join("image"))?;
    capture(Command::new("dpkg-deb").arg("--extract").arg(&dist.package).arg(&folder))?;
    make_folder(&folder.join("bin"))?;
    let failed = |error| format!("{}: {error}", folder.display());
    fs::copy(sysroot.join("bin/busybox"), folder.join("bin/busybox")).map_err(failed)?;
    symlink("busybox", folder.join("bin/cp")).map_err(failed)?;
    symlink("usr/lib/manx", folder.join("manx")).map_err(failed)?;
    let licence = fs::read_to_string(sysroot.join(BUSYBOX_LICENCE)).map_err(failed)?;
    write(&folder.join(BUSYBOX_LICENCE), &licence)?;

    let layer = image.join("layer");
    package::tar(&folder, ".", &layer)?;
    let tar = dist.parts.join("image.tar");
    capture(Command::new("sh").args(["-c", "gzip -dc \"$1\" > \"$2\"", "sh"]).arg(&layer).arg(&tar))?;
    let layer_described = kept(&image, &layer, LAYER)?;
    let blob = |text: &Value, kind: &str| {
        let file = image.join("blob");
        write(&file, &text.to_string())?;
        kept(&image, &file, kind)
    };
    let configuration = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": { "Env": ["PATH=/usr/bin:/bin"] },
        "rootfs": { "type": "layers", "diff_ids": [sum(&tar)?] },
    });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(&configuration, CONFIGURATION)?,
        "layers": [layer_described],
    });
    let mut described = blob(&manifest, MANIFEST)?;
    described["annotations"] = json!({ "org.opencontainers.image.ref.name": VERSION });
    described["platform"] = json!({ "architecture": "amd64", "os": "linux" });
    let index = json!({ "schemaVersion": 2, "manifests": [described] });
    write(&image.join("index.json"), &index.to_string())?;
    write(&image.join("oci-layout"), &json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    Ok(image)
}

/// Moves a file to the place that its checksum names, and describes it.
fn kept(image: &Path, file: &Path, kind: &str) -> Result<Value> {
    let digest = sum(file)?;
    let place = image.join("blobs").join(digest.replace(':', "/"));
    let size = fs::metadata(file).and_then(|found| fs::rename(file, &place).map(|()| found.len()));
    let size = size.map_err(|error| format!("{}: {error}", place.display()))?;
    Ok(json!({ "mediaType": kind, "digest": digest, "size": size }))
}

fn sum(file: &Path) -> Result<String> {
    let printed = capture(Command::new("sha256sum").arg(file))?;
    Ok(format!("sha256:{}", printed.split_whitespace().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_lies_under_its_checksum() {
        let folder = tempfile::tempdir().unwrap();
        make_folder(&folder.path().join("blobs/sha256")).unwrap();
        let file = folder.path().join("blob");
        write(&file, "abc").unwrap();
        let described = kept(folder.path(), &file, LAYER).unwrap();
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let expected = json!({ "mediaType": LAYER, "digest": format!("sha256:{sum}"), "size": 3 });
        assert_eq!(described, expected);
        assert_eq!(fs::read_to_string(folder.path().join("blobs/sha256").join(sum)).unwrap(), "abc");
    }
}
