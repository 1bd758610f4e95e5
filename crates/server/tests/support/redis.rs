//! A real server of Redis, to compare answers with.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

/// A server of Redis that ends with the test.
pub struct Redis {
    process: Child,
    pub address: SocketAddr,
    pub folder: tempfile::TempDir,
}

impl Redis {
    /// None, and the test is skipped, where there is none.
    pub fn start() -> Option<Redis> {
        Redis::with(&[])
    }

    /// With these options beside the usual ones.
    pub fn with(options: &[&str]) -> Option<Redis> {
        Redis::try_start(options).map_err(testing::skip).ok()
    }

    fn try_start(options: &[&str]) -> Result<Redis, &'static str> {
        // The port is free now, and most likely still is when Redis takes it.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let process = Command::new("redis-server")
            .args([
                "--port",
                &address.port().to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--databases",
                "1",
            ])
            .args(options)
            // SORT goes by it.
            .env("LC_ALL", "C")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = process.map_err(|_| "redis-server is not installed")?;
        let mut redis = Redis { process, address, folder };
        for _ in 0..1_000 {
            if std::net::TcpStream::connect(address).is_ok() {
                return Ok(redis);
            }
            if redis.process.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Err("redis-server does not start here")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
