//! A private PostgreSQL cluster for the tests of this process, on loopback.
//!
//! Owns its folder, its start and its end. Where there is no PostgreSQL the tests that need one say so and are
//! skipped.

use leasehold::{EngineBuilder, PostgresPlace};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// The user of the cluster.
const USER: &str = "leasehold";
/// Nothing here cuts the power, so what the system holds need not reach the disk.
///
/// Starts the server and ends it, with its folder, when nobody holds the other end of its input any more.
const KEEPER: &str = r#"
"$1/postgres" -D "$2/data" -k "$2" -p "$3" -c listen_addresses=127.0.0.1 -c max_connections=200 \
    -c fsync=off -c log_min_messages=fatal $4 > "$2/log" 2>&1 &
read -r _
"$1/pg_ctl" -D "$2/data" -m immediate -w stop > "$2/log" 2>&1
wait
rm -rf "$2"
"#;

/// A running cluster.
pub(crate) struct Cluster {
    binaries: PathBuf,
    folder: PathBuf,
    port: u16,
    owner: Option<(u32, u32)>,
    /// More arguments of the server.
    settings: String,
    keeper: Mutex<Option<Child>>,
}

static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
static SCHEMAS: AtomicU32 = AtomicU32::new(0);

/// The cluster of this process; `None`, and a word about it, where there is no PostgreSQL.
pub(crate) fn cluster() -> Option<&'static Cluster> {
    let cluster = CLUSTER.get_or_init(Cluster::start).as_ref();
    if cluster.is_none() {
        assert!(
            std::env::var_os("LEASEHOLD_TESTS_NEED_POSTGRES").is_none(),
            "there is no PostgreSQL"
        );
        eprintln!(
            "skipped: no PostgreSQL server on this machine (Debian: apt-get install postgresql)"
        );
    }
    cluster
}

fn binaries() -> Option<PathBuf> {
    let named = std::env::var_os("LEASEHOLD_POSTGRES_BIN").map(PathBuf::from);
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok();
    let debian = versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let mut found: Vec<PathBuf> = named.into_iter().chain(debian).collect();
    found.retain(|folder| folder.join("initdb").exists());
    found.sort();
    found.pop()
}

/// Whom the server runs as, when the tests run as root, which it refuses.
fn other_user() -> Option<(u32, u32)> {
    let id = |flags: &[&str]| -> Option<u32> {
        let printed = Command::new("id").args(flags).output().ok()?;
        String::from_utf8(printed.stdout).ok()?.trim().parse().ok()
    };
    (id(&["-u"])? == 0).then(|| Some((id(&["-u", "postgres"])?, id(&["-g", "postgres"])?)))?
}

impl Cluster {
    fn start() -> Option<Self> {
        Self::start_in(&binaries()?, |_| Some(String::new()))
    }

    /// A cluster of its own, for tests that stop it.
    pub(crate) fn alone() -> Option<Self> {
        cluster()?;
        Self::start()
    }

    /// A cluster that is started with what is made in its folder; `None` where that cannot be made.
    pub(crate) fn with(settings: impl FnOnce(&Path) -> Option<String>) -> Option<Self> {
        cluster()?;
        Self::start_in(&binaries()?, settings)
    }

    fn start_in(binaries: &Path, settings: impl FnOnce(&Path) -> Option<String>) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("leasehold-pg-").tempdir().ok()?.keep();
        let owner = other_user();
        let settings = settings(&folder)?;
        if let Some((user, group)) = owner {
            let files = std::fs::read_dir(&folder).expect("it is there");
            let files = files.map(|file| file.expect("readable").path());
            for path in files.chain([folder.clone()]) {
                chown(path, Some(user), Some(group)).expect("root may");
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let cluster = Self {
            binaries: binaries.to_path_buf(),
            folder,
            port,
            owner,
            settings,
            keeper: Mutex::new(None),
        };
        let made = cluster
            .command(&cluster.binaries.join("initdb"))
            .args(["-A", "trust", "-E", "UTF8", "--locale=C", "-U", USER, "-D"])
            .arg(cluster.folder.join("data"))
            .output()
            .expect("initdb starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        cluster.up();
        Some(cluster)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env_remove("PGPASSWORD");
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    /// Starts the server and waits until it answers.
    pub(crate) fn up(&self) {
        let mut keeper = self.command(Path::new("/bin/sh"));
        keeper.args(["-c", KEEPER, "keeper"]).arg(&self.binaries).arg(&self.folder);
        keeper.arg(self.port.to_string()).arg(&self.settings).stdin(Stdio::piped());
        *self.keeper.lock().expect("not poisoned") = Some(keeper.spawn().expect("a shell"));
        self.wait_until_ready();
    }

    fn wait_until_ready(&self) {
        let mut tries = 0;
        while !self.psql("SELECT 1").is_ok_and(|answer| answer == "1") {
            tries += 1;
            assert!(tries < 600, "the server does not start");
            pause();
        }
    }

    /// Stops the server as a restart does and starts it again.
    pub(crate) fn restart(&self) {
        let mut restart = self.command(&self.binaries.join("pg_ctl"));
        restart.args(["-w", "-m", "immediate", "-l"]).arg(self.folder.join("log"));
        restart.arg("-D").arg(self.folder.join("data")).arg("restart");
        let done = restart.output().expect("pg_ctl starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        self.wait_until_ready();
    }

    /// Asks the server something, past the program.
    pub(crate) fn psql(&self, query: &str) -> Result<String, String> {
        let mut psql = self.command(&self.binaries.join("psql"));
        psql.args(["-X", "-A", "-t", "-h", "127.0.0.1", "-U", USER, "-d", "postgres", "-p"]);
        let answer = psql.arg(self.port.to_string()).args(["-c", query]).output();
        let answer = answer.map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if answer.status.success() { Ok(text(&answer.stdout)) } else { Err(text(&answer.stderr)) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a schema that no other test has.
    pub(crate) fn url(&self) -> String {
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        format!("postgres://{USER}@127.0.0.1:{}/postgres?schema=test_{number}", self.port)
    }

    /// The same, read.
    pub(crate) fn place(&self) -> PostgresPlace {
        self.named().1
    }

    /// The same with the schema's name.
    pub(crate) fn named(&self) -> (String, PostgresPlace) {
        let url = self.url();
        let schema = url.split_once("schema=").expect("it has one").1.to_owned();
        (schema, PostgresPlace::parse(&url).expect("a place"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.lock().expect("not poisoned").take() {
            if let Some(mut input) = keeper.stdin.take() {
                input.write_all(b"\n").expect("the keeper listens");
            }
            keeper.wait().expect("the keeper ends");
        }
    }
}

/// An engine on a server.
pub(crate) fn builder(place: &PostgresPlace) -> EngineBuilder {
    leasehold::Engine::on_server(place.clone())
}

/// A moment between two looks at a server that is starting: nothing tells when it answers.
#[allow(clippy::disallowed_methods)]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(50));
}
