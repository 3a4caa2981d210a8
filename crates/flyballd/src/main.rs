//! `flyballd`: the data plane as a standalone binary. Arguments → config → server → signals. No Python
//! inside.
#![forbid(unsafe_code)]

use anyhow::Context;
use clap::Parser;
use flyball_core::FaultKind;
use flyball_core::printable;
use flyball_core::snapshot::Bundle;
use flyball_server::{HostCommand, Server, ServerConfig, build_info, serve_models};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// 2 % more requests a second than glibc's (16 connections, one lane; medians of 8 interleaved windows).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves the models of a snapshot: HTTP/1.1, HTTP/2 and gRPC (Open Inference Protocol V2) on one port.
///
/// ONNX Runtime is loaded from ORT_DYLIB_PATH, or from libonnxruntime.so next to this program. SIGTERM and
/// SIGINT drain and stop; SIGHUP reads the snapshot again and applies what changed.
#[derive(Parser)]
#[command(name = "flyballd", version = version(), after_help = "Make a snapshot:  flyball snapshot MODEL.onnx --out DIR")]
struct Arguments {
    /// The snapshot's index file; documents and models are next to it.
    #[arg(long, value_name = "FILE")]
    snapshot: PathBuf,
    /// Read the snapshot again whenever its index changes.
    #[arg(long)]
    watch: bool,
    /// PEM file of the root public keys, which sign the trust policy.
    #[arg(long, value_name = "FILE")]
    trust_root: Option<PathBuf>,
    /// The signed trust policy; read again when it changes.
    #[arg(long, value_name = "FILE")]
    trust_policy: Option<PathBuf>,
    /// Directory for the last accepted serials, so that nothing older is accepted [default: next to the trust
    /// policy].
    #[arg(long, value_name = "FOLDER")]
    state_folder: Option<PathBuf>,
    /// Environment of this server; releases for others are rejected [default: production].
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// Serve unsigned deployments: allow, or refuse [default: refuse].
    #[arg(long, value_name = "WORD")]
    unsigned: Option<String>,
    /// Replaced deployments of each name that stay loaded [default: 1].
    #[arg(long, value_name = "N")]
    previous_kept: Option<usize>,
    /// HOST:PORT, tls://HOST:PORT or unix:/PATH (may be repeated; port 0 takes a free one) [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// PEM file of the server's certificate.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file of its private key.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// PEM file of the authorities that must have issued client certificates.
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Mode of the sockets of unix: addresses [default: 0600].
    #[arg(long, value_name = "OCTAL")]
    unix_mode: Option<String>,
    /// JSON file of callers and their rights; `flyball caller` writes it.
    #[arg(long, value_name = "FILE")]
    callers: Option<PathBuf>,
    /// Serve anonymous callers, also beyond this machine.
    #[arg(long)]
    allow_anonymous: bool,
    /// Let clients load and unload models.
    #[arg(long)]
    allow_model_control: bool,
    /// Let clients pass tensors in shared memory.
    #[arg(long)]
    allow_shared_memory: bool,
    /// Web pages of this origin may read responses (may be repeated).
    #[arg(long, value_name = "ORIGIN")]
    cors_origin: Vec<String>,
    /// Record decisions in this folder.
    #[arg(long, value_name = "FOLDER")]
    journal_folder: Option<PathBuf>,
    /// File of the key that signs checkpoints [default: in the folder].
    #[arg(long, value_name = "FILE")]
    journal_key: Option<PathBuf>,
    /// Source of the key for personal data: file:PATH, env:NAME or command:ARGV [default: in the folder].
    #[arg(long, value_name = "PLACE")]
    journal_kek: Option<String>,
    /// Serving threads [default: one for each core that this process may use].
    #[arg(long, value_name = "N")]
    lanes: Option<usize>,
    /// Settings as JSON; see docs/reference/server-config.md. Arguments override it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn version() -> String {
    let build = build_info();
    format!("{} ({}, {} build)", build.version, build.commit, build.profile)
}

/// The argument by which this program starts itself as a model host. Internal, so not among the arguments.
const MODEL_HOST: &str = "model-host";

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == MODEL_HOST) {
        return serve_models().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let arguments = Arguments::parse();
    match serve(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("Refused: {}", printable(&format!("{error:#}")));
            ExitCode::from(FaultKind::InvalidInput.exit_code())
        }
    }
}

fn serve(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = settings(arguments)?;
    let bundle = Bundle::from_file(&arguments.snapshot)?;
    // Registered before any thread starts: a signal during startup is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    // This very program, even if it was replaced on disk.
    let host = HostCommand { program: "/proc/self/exe".into(), arguments: vec![MODEL_HOST.into()] };
    let server = Server::start(config, &bundle, Some(host))?;
    if let Some(nothing) = server.nothing_served() {
        anyhow::bail!("{nothing}");
    }
    println!("{}", server.ready_line());
    // A reload runs in the background, so that a server can be stopped meanwhile.
    std::thread::scope(|scope| {
        let mut reload: Option<ScopedJoinHandle<'_, ()>> = None;
        for signal in &mut signals {
            if signal != SIGHUP {
                break;
            }
            if let Some(running) = reload.take_if(|running| !running.is_finished()) {
                tracing::warn!("a reload is in progress; this one starts when it has ended");
                let _ = running.join();
            }
            reload = Some(scope.spawn(|| apply(&server, &arguments.snapshot)));
        }
        server.drain()?;
        while !server.wait(Duration::from_millis(50)) {
            if signals.pending().any(|signal| signal != SIGHUP) {
                // A second signal: skip the grace period and all destructors.
                std::process::exit(1);
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn settings(arguments: &Arguments) -> anyhow::Result<ServerConfig> {
    let mut config = match &arguments.config {
        None => ServerConfig::default(),
        Some(path) => {
            let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            ServerConfig::read(&text).map_err(|faults| {
                let faults = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                anyhow::anyhow!("{} is not a valid settings file: {faults}", path.display())
            })?
        }
    };
    override_with(&mut config, arguments);
    Ok(config)
}

/// Command-line arguments override the file.
fn override_with(config: &mut ServerConfig, arguments: &Arguments) {
    for (key, given) in
        [(&mut config.listen, &arguments.listen), (&mut config.cors_origins, &arguments.cors_origin)]
    {
        if !given.is_empty() {
            key.clone_from(given);
        }
    }
    for (key, given) in [
        (&mut config.tls_cert, &arguments.tls_cert),
        (&mut config.tls_key, &arguments.tls_key),
        (&mut config.tls_client_ca, &arguments.tls_client_ca),
        (&mut config.callers, &arguments.callers),
        (&mut config.trust_root, &arguments.trust_root),
        (&mut config.trust_policy, &arguments.trust_policy),
        (&mut config.state_folder, &arguments.state_folder),
        (&mut config.journal_folder, &arguments.journal_folder),
        (&mut config.journal_key, &arguments.journal_key),
    ] {
        if given.is_some() {
            key.clone_from(given);
        }
    }
    config.lanes = arguments.lanes.or(config.lanes);
    config.journal_kek = arguments.journal_kek.clone().or(config.journal_kek.take());
    for (key, given) in [
        (&mut config.unix_mode, &arguments.unix_mode),
        (&mut config.environment, &arguments.environment),
        (&mut config.unsigned, &arguments.unsigned),
    ] {
        if let Some(given) = given {
            key.clone_from(given);
        }
    }
    config.previous_kept = arguments.previous_kept.unwrap_or(config.previous_kept);
    config.watch_snapshot |= arguments.watch;
    config.allow_anonymous = arguments.allow_anonymous.then_some(true).or(config.allow_anonymous);
    config.allow_model_control |= arguments.allow_model_control;
    config.allow_shared_memory |= arguments.allow_shared_memory;
}

/// Applies the current snapshot; faults are logged, and the serving state stays.
fn apply(server: &Server, snapshot: &Path) {
    match Bundle::from_file(snapshot) {
        Ok(bundle) => drop(server.apply(&bundle)),
        Err(error) => tracing::error!(%error, "snapshot refused"),
    }
}
