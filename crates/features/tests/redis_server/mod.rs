//! A real redis-server for a test: on a socket in its own directory, or over TCP.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct RedisServer {
    pub(crate) url: String,
    port: u16,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl RedisServer {
    /// `None` if `FLYBALL_WITHOUT` leaves Redis out; without it, a missing redis-server fails the test.
    pub(crate) fn start() -> Option<RedisServer> {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("redis+unix://{}", folder.path().join("socket").display());
        RedisServer { url, port: 0, folder, child: None }.started()
    }

    #[allow(dead_code, reason = "only some of the tests that share this file want TCP")]
    pub(crate) fn start_tcp() -> Option<RedisServer> {
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let (url, folder) = (format!("redis://127.0.0.1:{free}"), tempfile::tempdir().unwrap());
        RedisServer { url, port: free, folder, child: None }.started()
    }

    fn started(self) -> Option<RedisServer> {
        let left_out = std::env::var("FLYBALL_WITHOUT").unwrap_or_default();
        if left_out.split(',').any(|part| part.trim() == "redis") {
            eprintln!("without redis: FLYBALL_WITHOUT names it");
            return None;
        }
        let mut server = self;
        match server.run() {
            Ok(()) => Some(server),
            Err(error) if error.kind() == io::ErrorKind::NotFound => panic!(
                "redis-server is missing; get it: apt-get install redis-server; or leave its tests out: \
                 FLYBALL_WITHOUT=redis"
            ),
            Err(error) => panic!("redis-server does not start: {error}"),
        }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("socket")
    }

    /// Starts it if needed, and waits until it answers.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            &self.port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--enable-debug-command",
            "yes",
        ]);
        command.arg("--unixsocket").arg(self.socket()).arg("--dir").arg(self.folder.path());
        self.child = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let until = Instant::now() + Duration::from_secs(20);
        while !self.answers() {
            assert!(Instant::now() < until, "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops it from answering until resumed. Not with `CLIENT PAUSE`, which also delays its shutdown.
    #[allow(dead_code, reason = "only some of the tests that share this file want it")]
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    #[allow(dead_code, reason = "only some of the tests that share this file want it")]
    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    #[allow(dead_code, reason = "only some of the tests that share this file want it")]
    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    fn answers(&self) -> bool {
        let client = redis::Client::open(self.url.as_str()).unwrap();
        let ping = |mut connection| redis::cmd("PING").query::<String>(&mut connection);
        client.get_connection().and_then(ping).is_ok()
    }

    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url.as_str()).unwrap().get_connection().unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
