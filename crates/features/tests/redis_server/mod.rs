//! A real redis-server for a test: on a socket in a folder of its own, and gone with it.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct RedisServer {
    pub(crate) url: String,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl RedisServer {
    /// None where this machine has no redis-server, which is told; in continuous integration that is a failure.
    pub(crate) fn start() -> Option<RedisServer> {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("redis+unix://{}", folder.path().join("socket").display());
        let mut server = RedisServer { url, folder, child: None };
        match server.run() {
            Ok(()) => Some(server),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let line =
                    "redis-server is missing, so this was not tested; get it: apt-get install redis-server";
                assert!(std::env::var_os("FLYBALL_REDIS_REQUIRED").is_none(), "{line}");
                eprintln!("{line}");
                None
            }
            Err(error) => panic!("redis-server does not start: {error}"),
        }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("socket")
    }

    /// Starts it where it is not running, and waits until it answers.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--enable-debug-command", "yes"]);
        command.arg("--unixsocket").arg(self.socket()).arg("--dir").arg(self.folder.path());
        self.child = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let until = Instant::now() + Duration::from_secs(20);
        while !answers(&self.socket()) {
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

    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url.as_str()).unwrap().get_connection().unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn answers(socket: &Path) -> bool {
    let client = redis::Client::open(format!("redis+unix://{}", socket.display())).unwrap();
    client
        .get_connection()
        .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection))
        .is_ok()
}
